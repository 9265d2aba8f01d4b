#pragma once
#include <cuda_runtime.h>

#include "ops/radix_sort.h"

namespace glmtune::ops {

struct SortedKeys {
  const std::int32_t* keys;   // ascending
  const std::int32_t* index;  // where each stood; equal keys keep their order
};

// Sorts keys[0, n), each in [0, limit), leaving them as they are; the results lie in `workspace`
// (radix_sort_bytes(n)).
SortedKeys radix_sort(cudaStream_t stream, const std::int32_t* keys, std::int64_t n,
                      std::int64_t limit, void* workspace);

}  // namespace glmtune::ops
