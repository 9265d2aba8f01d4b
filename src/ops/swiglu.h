#pragma once
// Gated activation of the MLPs and experts. R rows, I columns; gate and up may be the two halves of
// one [R, 2I] tensor (strided rows).
#include "ops/op.h"

namespace glmtune::ops {

// y = silu(gate) ⊙ up [· row_scale[r]];  row_scale wide [R] or {}: the router's weight, applied
// before the down projection and before the one rounding (model.md 3.7).
struct Swiglu {
  Tensor y, gate, up, row_scale;
  void check() const;
};
GLMTUNE_DECLARE_OP(Swiglu);

// With s = row_scale (1 when {}), m = silu(gate) ⊙ up:
//   dgate = dy·s·up·σ(1 + gate(1−σ)),  dup = dy·s·silu(gate),  drow_scale[r] = Σ_i dy·m  ({} if
//   none).
// All overwritten; dgate/dup may alias gate/up; y, if given, receives m·s again (for the down
// projection's weight gradient, so that the forward need not keep it).
struct SwigluBackward {
  Tensor dgate, dup, drow_scale, y, dy, gate, up, row_scale;
  void check() const;
};
GLMTUNE_DECLARE_OP(SwigluBackward);

}  // namespace glmtune::ops
