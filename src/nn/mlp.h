#pragma once
// Gated MLP: y = down( silu(gate x) ⊙ up x ) (model.md 3.8): the dense layers' and the shared
// expert. T tokens, C hidden size, I intermediate size.
#include "nn/linear.h"

namespace glmtune::nn {

struct Mlp {
  struct Saved {
    Linear::Saved gate_proj, up_proj;
    Tensor gate, up;  // [T, I]
  };

  Linear gate_proj, up_proj;  // [I, C]
  Linear down_proj;           // [C, I]

  // y [T, C] = mlp(x) + residual ({}: none); y {}: only what is saved.
  void forward(Context& ctx, Tensor y, Tensor x, Tensor residual, Saved* saved) const;
  // dx [T, C] overwritten; the weights' gradients add.
  void backward(Context& ctx, Tensor dx, Tensor dy, const Saved& saved) const;
};

}  // namespace glmtune::nn
