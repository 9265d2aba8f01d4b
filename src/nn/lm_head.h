#pragma once
// LmHead: logits and cross-entropy on the rows that have labels, in chunks of rows, so that full
// logits never exist (model.md 3.9, 4.4). T tokens, L labelled rows, C hidden size, V vocabulary.
#include "nn/linear.h"
#include "nn/packed_row.h"

namespace glmtune::nn {

struct LmHead {
  std::int64_t chunk_rows = 1024;
  // A power of two from 64 to 4096 whose logits take about a gigabyte at most in 16 bits.
  static std::int64_t rows_for(std::int64_t vocab_size);

  // loss_sum F64 [1] += Σ cross-entropy of the labelled rows of h [T, C]. With dh [T, C]
  // (overwritten) also the gradients of grad_scale · loss: dh, and `weight` [V, C]'s grad
  // (adds; the first of a step is written).
  void run(Context& ctx, Tensor loss_sum, Tensor dh, const Linear& projection, Tensor h,
           const PackedRow& row, double grad_scale) const;
};

}  // namespace glmtune::nn
