#pragma once
// Causal attention inside the documents of a packed row, non-absorbed form (model.md 3.4, 4.2),
// dense or restricted to a selection of keys. Operands of real numbers share one dtype but lse,
// which is wide. T tokens, H heads, Dn nope size, Dr rope size, Dv value size.
#include <cstdint>

#include "ops/op.h"

namespace glmtune::ops {

// The documents an attention op works on: rows [begin, end) of the packed tensors. Rows of no
// listed document are neither read nor written, so that one row can mix several attention paths.
struct Documents {
  Tensor bounds;                       // I32 [count, 2] on the op's device: begin, end
  const std::int32_t* host = nullptr;  // the same numbers in host memory
  std::int64_t count = 0;
  std::int64_t max_length = 0;
};

// Key of head h at row j: [k_nope[j, h] | k_rope[j]] (one rope key for all heads).
//   score(t, j, h) = scale · q[t, h]·key(j, h) for begin ≤ j ≤ t, same document, bit set in `mask`;
//   out[t, h] = Σ_j softmax_j(score) v[j, h];   lse[h, t] = logsumexp_j(score), wide [H, T]
// q [T, H, Dn+Dr], k_nope [T, H, Dn], k_rope [T, Dr], v [T, H, Dv], out [T, H, Dv]; any row
// strides. mask U32 [T, W]: bit j−begin of row t (as TopkSelect writes it), or {}: all visible
// keys. A row whose set is empty gives out 0 and lse −inf. Softmax in at least fp32.
struct CausalAttention {
  Tensor out, lse, q, k_nope, k_rope, v, mask;
  Documents documents;
  double scale;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(CausalAttention);

// With P = exp(score − lse), Δ = dout·out, dS = scale·P·(dout·v − Δ): all outputs overwritten for
// the rows of the listed documents; dk_rope sums over the heads. Deterministic.
struct CausalAttentionBackward {
  Tensor dq, dk_nope, dk_rope, dv;
  Tensor dout, out, lse, q, k_nope, k_rope, v, mask;
  Documents documents;
  double scale;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(CausalAttentionBackward);

// Absorbed form over gathered keys: one shared key row [latent[j] | k_rope[j]], whose latent part
// is the value too. T queries, S key rows, R = kv_lora_rank.
//   score(t, j, h) = scale·(q_latent[t, h]·latent[j] + q_rope[t, h]·k_rope[j])
//   out_latent[t, h] = Σ_j softmax_j(score) latent[j],  j ∈ indices[t, :counts[t]];   lse[h, t]
// q_latent [T, H, R], q_rope [T, H, Dr], latent [S, R], k_rope [S, Dr], indices I32 [T, K] (row
// numbers of latent, ascending), counts I32 [T]. counts[t] = 0 gives 0 and lse −inf.
struct SparseMla {
  Tensor out_latent, lse, q_latent, q_rope, latent, k_rope, indices, counts;
  double scale;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(SparseMla);

// dq_latent, dq_rope, dlatent, dk_rope overwritten; dlatent sums the latent's two roles, key and
// value.
struct SparseMlaBackward {
  Tensor dq_latent, dq_rope, dlatent, dk_rope;
  Tensor dout_latent, out_latent, lse, q_latent, q_rope, latent, k_rope, indices, counts;
  double scale;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(SparseMlaBackward);

}  // namespace glmtune::ops
