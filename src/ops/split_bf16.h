#pragma once
// A float as a sum of three BF16 numbers, so that tensor cores multiply it without loss.
#include "ops/op.h"

namespace glmtune::ops {

// y[r] = [hi | mid | lo], hi = bf16(x[r]), mid = bf16(x[r] − hi), lo = bf16(x[r] − hi − mid): 3 · 8
// bits of mantissa, whose sum is x (but for what lies below BF16's smallest number).
// y BF16 [R, 3C], x F32 [R, C].
struct SplitBf16 {
  Tensor y, x;
  void check() const;
};
GLMTUNE_DECLARE_OP(SplitBf16);

}  // namespace glmtune::ops
