#pragma once
// The tensor-core version of IndexScores. Only .cu files include this.
#include <cuda_runtime_api.h>

#include "ops/indexer.h"

namespace glmtune::ops {

struct IndexScoreOperands {
  float* scores;
  const float* weights;
  std::int64_t scores_row, weights_row, q_row, q_head, k_row;
  std::int64_t queries, keys, query_begin;
  int heads, size;
  float scale, weight_scale;
};

namespace sm90 {

// Runs and returns true for BF16 operands of 32 heads of 128 whose rows TMA can read.
bool index_scores(cudaStream_t stream, const IndexScores& op, const IndexScoreOperands& o);

}  // namespace sm90
}  // namespace glmtune::ops
