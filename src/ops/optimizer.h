#pragma once
// The update of all parameters at once, and the gradient norm. Lists are host arrays of views.
#include <cstdint>
#include <span>

#include "ops/op.h"

namespace glmtune::ops {

// out[0] += Σ over all items of Σ x²;  out F64 [1]. Fixed order: same inputs, same bits.
struct SumSquares {
  Tensor out;
  std::span<const Tensor> items;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(SumSquares);

// factor[0] = min(1, max_norm / (sqrt(sum_squares[0]) + 1e-6)), all F64 [1]; max_norm ≤ 0 or
// inf: 1. NaN where sum_squares[0] or loss[0] ({}: not looked at) is not finite: the mark of a step
// that is not applied, which Adam and UpdateRouterBias obey without the host.
struct ClipFactor {
  Tensor factor, sum_squares, loss;
  double max_norm;
  void check() const;
};
GLMTUNE_DECLARE_OP(ClipFactor);

struct AdamItem {
  Tensor param;  // F64, F32 or BF16, updated in place
  Tensor
      remainder;  // U16, or {}: the fp32 master is bits (param << 16) + (int16) remainder, see Adam
  Tensor grad;    // not changed
  Tensor m, v;    // F64, F32 or BF16
  double lr_mult = 1, wd_mult = 1;
};

// g = grad·grad_scale[0]; coupled: g += weight_decay·p; decoupled (AdamW): p −= lr·weight_decay·p;
// m = β1 m + (1−β1) g;  v = β2 v + (1−β2) g²;  p −= lr·(m/(1−β1^step)) / (√(v/(1−β2^step)) + eps)
// as torch.optim.Adam and AdamW compute it, in at least fp32. grad_scale F64 [1] or {}: 1; NaN:
// nothing changes. With a remainder (BF16 param) the update acts on an exact fp32 master of bits
// (param.bits << 16) + sign-extended remainder: the parameter is the master rounded to nearest
// (ties away from zero), the remainder what rounding took away.
//
// round_each_operation, for items of BF16 param, m and v without a remainder: the gradient and the
// result of every operation are rounded to BF16, as torch.optim computes on BF16 tensors: g = grad,
// g *= grad_scale, g += weight_decay·p or p *= 1 − lr·weight_decay, m = lerp(m, g, 1−β1), v *= β2,
// v += (1−β2) g², d = √v, d /= √(1−β2^step), d += eps, p −= lr/(1−β1^step)·(m/d). Near β2 = 1 a
// product of v with β2 rounds back to v: torch's v then only grows.
struct Adam {
  std::span<const AdamItem> items;
  Tensor grad_scale;
  double lr, beta1, beta2, eps, weight_decay;
  std::int64_t step;  // of this update, from 1
  bool decoupled = true;
  bool bias_correction = true;  // false: 1 in place of both 1 − β^step
  // BF16 parameters without a remainder: stochastic rounding keyed by (seed, step, element).
  bool stochastic_rounding = false;
  bool round_each_operation = false;
  std::uint64_t seed = 0;
  void check() const;
};
GLMTUNE_DECLARE_OP(Adam);

}  // namespace glmtune::ops
