#pragma once
// Matrix products. Accumulation in at least fp32, in double for F64.
// Legend: M, N, K sizes of a product; B batch; E experts; R rows sorted by expert.
#include "ops/op.h"

namespace glmtune::ops {

// out = alpha · op(a) op(b) + beta · c, per batch where the operands have rank 3.
//   out [M, N], a [M, K] (trans_a: [K, M]), b [K, N] (trans_b: [N, K]); or [B, ...] each.
//   c: {} means out itself (beta 0: not read); a c of out's shape and dtype is read instead of out.
// Rows may be strided. a and b share a dtype; out may be wider (BF16 products into F32).
struct Matmul {
  Tensor out, a, b;
  Tensor c = {};
  bool trans_a = false, trans_b = false;
  double alpha = 1, beta = 0;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(Matmul);

// Rows [offsets[e], offsets[e+1]) go through expert e's matrix:
//   out[r] = a[r] · op(b[e]);  out [R, N], a [R, K], b [E, K, N] (trans_b: [E, N, K]),
//   offsets I32 [E+1] on the op's device. Rows past offsets[E] are left alone. Offsets that
//   do not ascend within R are an error (CPU).
struct GroupedMatmul {
  Tensor out, a, b, offsets;
  bool trans_b = false;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(GroupedMatmul);

// dw[e] += Σ_{r of expert e} dy[r] ⊗ x[r];  dw [E, N, K] (may be wider than dy and x), dy [R, N], x
// [R, K], offsets as in GroupedMatmul. `overwrite`: dw[e] = Σ instead, zeros for an expert without
// rows; dw is not read. The same bits as adding to zeros, but for the sign of a sum of −0.
struct GroupedMatmulWgrad {
  Tensor dw, dy, x, offsets;
  bool overwrite = false;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(GroupedMatmulWgrad);

}  // namespace glmtune::ops
