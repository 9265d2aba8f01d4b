#pragma once
// Moving rows: token permutation for the experts (model.md 4.3), label rows for the head. C
// columns; x and y share a dtype, any that is only moved. Row numbers outside are an error (CPU).
#include "ops/op.h"

namespace glmtune::ops {

// y[r] = x[index[r]];  y [R, C], x [S, C], index I32 [R].
struct GatherRows {
  Tensor y, x, index;
  void check() const;
};
GLMTUNE_DECLARE_OP(GatherRows);

// y[row_of_slot[t, j]] = x[t] for every slot j: tokens to their experts' rows, each read once.
// x [T, C], y [T·K, C], row_of_slot I32 [T, K] names each row of y exactly once.
struct SpreadRows {
  Tensor y, x, row_of_slot;
  void check() const;
};
GLMTUNE_DECLARE_OP(SpreadRows);

// y[index[r]] = x[r]; the other rows of y are left alone. Each row is named at most once.
struct ScatterRows {
  Tensor y, x, index;
  void check() const;
};
GLMTUNE_DECLARE_OP(ScatterRows);

// y[t] = base[t] + Σ_j x[row_of_slot[t, j]], summed in at least fp32 in the order of j, one
// rounding. y [T, C], x [R, C], row_of_slot I32 [T, K], base [T, C] (may be y itself) or {}.
struct CombineRows {
  Tensor y, x, row_of_slot, base;
  void check() const;
};
GLMTUNE_DECLARE_OP(CombineRows);

}  // namespace glmtune::ops
