#pragma once
// Small ops over whole tensors; rows may be strided.
#include "ops/op.h"

namespace glmtune::ops {

// out = a + b, all of one shape and dtype; out may be a or b.
struct Add {
  Tensor out, a, b;
  void check() const;
};
GLMTUNE_DECLARE_OP(Add);

// dst = src with conversion between F64, F32, BF16 (round to nearest even) and F16 → any; same
// shape.
struct Copy {
  Tensor dst, src;
  void check() const;
};
GLMTUNE_DECLARE_OP(Copy);

// x = value everywhere.
struct Fill {
  Tensor x;
  double value;
  void check() const;
};
GLMTUNE_DECLARE_OP(Fill);

// x *= factor.
struct Scale {
  Tensor x;
  double factor;
  void check() const;
};
GLMTUNE_DECLARE_OP(Scale);

// out[0] += Σ x, fixed order, summed in double;  out F64 [1], x of wide dtype [R].
struct AddSum {
  Tensor out, x;
  void check() const;
};
GLMTUNE_DECLARE_OP(AddSum);

}  // namespace glmtune::ops
