#pragma once
// RmsNorm as a module: y = x · rstd · weight (ops/norm.h). T rows, C columns.
#include "nn/parameter.h"
#include "tensor/context.h"

namespace glmtune::nn {

struct RmsNorm {
  struct Saved {
    Tensor x, rstd;
  };

  Parameter weight;  // [C]
  double eps = 1e-5;

  // y, x [T, C]; y is the caller's; rstd, wide [T], is kept in the saved arena when `saved` is
  // given.
  void forward(Context& ctx, Tensor y, Tensor x, Saved* saved) const;
  // dx [T, C] = gradient through the norm + residual ({}: none), overwritten; weight.grad adds
  // (the first of a step is written).
  void backward(Context& ctx, Tensor dx, Tensor dy, const Saved& saved, Tensor residual = {}) const;
};

}  // namespace glmtune::nn
