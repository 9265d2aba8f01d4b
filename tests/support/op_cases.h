#pragma once
// The list of all op cases: checked by tests/ops on the CPU and on a CUDA device, timed by bench/.
// One cases_<family>.cpp per header of src/ops.
#include <vector>

#include "support/op_case.h"

namespace glmtune::test {

enum class Sizes : std::uint8_t {
  kOdd,    // small and uneven, empty ones too
  kWide,   // rows of the widths that CUDA kernels read in packs, or multiply on tensor cores
  kBench,  // a layer of the "small" benchmark model
};

std::vector<OpCase> elementwise_cases(Sizes sizes);
std::vector<OpCase> matmul_cases(Sizes sizes);
std::vector<OpCase> indexer_cases(Sizes sizes);
std::vector<OpCase> attention_cases(Sizes sizes);
std::vector<OpCase> norm_cases(Sizes sizes);
std::vector<OpCase> rope_cases(Sizes sizes);
std::vector<OpCase> swiglu_cases(Sizes sizes);
std::vector<OpCase> embedding_cases(Sizes sizes);
std::vector<OpCase> cross_entropy_cases(Sizes sizes);
std::vector<OpCase> router_cases(Sizes sizes);
std::vector<OpCase> rows_cases(Sizes sizes);
std::vector<OpCase> optimizer_cases(Sizes sizes);

std::vector<OpCase> all_op_cases(Sizes sizes);

}  // namespace glmtune::test
