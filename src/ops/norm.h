#pragma once
// RMSNorm and LayerNorm over the last dimension. Statistics in at least fp32, one rounding at the
// end (model.md 3.2). T rows, C columns; rows may be strided; weight, bias [C] of x's dtype.
#include "ops/op.h"

namespace glmtune::ops {

// y[t] = x[t] · rstd[t] · weight;  rstd[t] = (mean(x[t]²) + eps)^(-1/2), wide dtype [T].
struct RmsNorm {
  Tensor y, rstd, x, weight;
  double eps;
  void check() const;
};
GLMTUNE_DECLARE_OP(RmsNorm);

// dx = rstd·(g − x̂·mean(g·x̂)) [+ residual], g = dy·weight, x̂ = x·rstd; dx is overwritten and may be
// `residual` itself ({}: none). dweight [C] (wide or x's dtype) adds Σ_t dy·x̂; {} when frozen.
struct RmsNormBackward {
  Tensor dx, dweight, dy, x, weight, rstd, residual;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(RmsNormBackward);

// y = (x − mean)·rstd·weight + bias;  mean, rstd wide [T], rstd = (var + eps)^(-1/2), biased
// variance.
struct LayerNorm {
  Tensor y, mean, rstd, x, weight, bias;
  double eps;
  void check() const;
};
GLMTUNE_DECLARE_OP(LayerNorm);

// dx = rstd·(a − mean(a) − x̂·mean(a·x̂)), a = dy·weight (overwritten); dweight, dbias add.
struct LayerNormBackward {
  Tensor dx, dweight, dbias, dy, x, weight, mean, rstd;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(LayerNormBackward);

}  // namespace glmtune::ops
