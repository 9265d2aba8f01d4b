#pragma once
// Linear: y = x Wᵀ (no bias anywhere in this family). An adapter (LoRA) belongs inside this struct:
// it changes forward and backward here and nothing else. T tokens, K input size, N output size.
#include "nn/parameter.h"
#include "tensor/context.h"

namespace glmtune::nn {

struct Linear {
  struct Saved {
    Tensor x;  // a view: the caller keeps the input alive until the backward
  };

  Parameter weight;  // [N, K]

  // y [T, N] = x [T, K] Wᵀ + residual ({}: none). y may be of a wider dtype than x.
  void forward(Context& ctx, Tensor y, Tensor x, Saved* saved, Tensor residual = {}) const;

  struct BackwardMode {
    bool add_to_dx = false;  // dx += instead of dx =
    bool weight = true;      // false: dx only; the weight's part follows in a call of its own
  };
  // dx [T, K] = dy W ({}: not wanted); weight.grad += dyᵀ x (the first of a step: =)
  // where a gradient is allocated.
  void backward(Context& ctx, Tensor dx, Tensor dy, const Saved& saved, BackwardMode mode) const;
  void backward(Context& ctx, Tensor dx, Tensor dy, const Saved& saved) const {
    backward(ctx, dx, dy, saved, BackwardMode{});
  }
};

}  // namespace glmtune::nn
