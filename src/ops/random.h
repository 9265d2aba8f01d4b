#pragma once
// Random values that depend on a key and a position only: the same bits on every device and with
// any number of threads.
#include "ops/op.h"

namespace glmtune::ops {

// y[i] = deviation · g(first + i), g: normal(0, 1) numbers; four of them, 4b … 4b + 3, come from
// Philox block b under `key` (ops/normal.h), pairs (cosine, sine). Rounded to F32, then to y's
// dtype. y is contiguous; on a CUDA device F32 or BF16.
struct RandomNormal {
  Tensor y;
  std::uint64_t key;
  double deviation;
  std::int64_t first = 0;
  void check() const;
};
GLMTUNE_DECLARE_OP(RandomNormal);

}  // namespace glmtune::ops
