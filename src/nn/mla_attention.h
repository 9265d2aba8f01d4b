#pragma once
// MlaAttention: multi-head latent attention (model.md 3.4, 4.2) on the three paths of design.md 5.
// T tokens, H heads, N qk_nope_head_dim, P qk_rope_head_dim, V v_head_dim, R kv_lora_rank.
#include <vector>

#include "nn/dsa_indexer.h"
#include "nn/keep.h"
#include "nn/linear.h"
#include "nn/packed_row.h"
#include "nn/rms_norm.h"

namespace glmtune::nn {

struct MlaAttention {
  std::int64_t num_attention_heads = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  std::int64_t q_lora_rank = 0, kv_lora_rank = 0;
  double rope_theta = 0;

  Linear q_a_proj;            // [q_lora_rank, hidden]
  RmsNorm q_a_layernorm;      // eps: model.latent_norm_eps
  Linear q_b_proj;            // [H·(N+P), q_lora_rank]: head h owns rows h(N+P).., nope first
  Linear kv_a_proj_with_mqa;  // [R+P, hidden]: latent rows, then the shared rope key's
  RmsNorm kv_a_layernorm;
  Linear kv_b_proj;  // [H·(N+V), R]: head h owns rows h(N+V).., keys first
  Linear o_proj;     // [hidden, H·V]

  struct Saved {
    Linear::Saved q_a, q_b, kv_a, o;
    RmsNorm::Saved q_norm, kv_norm;
    Tensor q;       // [T, H·(N+P)], rotated
    Tensor latent;  // [T, R], normalised
    Tensor kv;      // [T, H·(N+V)] expanded keys and values (rows of `expanded` runs only)
    // The selected ones (Keep::kSelected):
    Tensor q_a_out;   // [T, q_lora_rank]
    Tensor kv_a_out;  // [T, R+P]: raw latent | rotated rope key
    Tensor out;       // [T, H·V]; not of a row with gather documents only
    Tensor lse;       // [H, T], of the expanded rows; {} without any
    struct Gathered {
      Tensor q_latent;    // [n, H, R] of one document on the gather path; not a selected one
      Tensor out_latent;  // [n, H, R]
      Tensor lse;         // [H, n]
    };
    std::vector<Gathered> gathered;

    Saved selected() const;  // the selected ones alone
  };

  // The query latent after q_a_layernorm, which the indexer reads too; [T, q_lora_rank].
  Tensor query_latent(Context& ctx, Tensor h, Saved* saved, Keep keep) const;
  // y [T, hidden] = attention(h) + residual; y {}: not wanted. Attends to `selection`'s keys in the
  // row's long documents. What `saved` holds from a forward with Keep::kSelected is not made again.
  void forward(Context& ctx, Tensor y, Tensor h, Tensor q_res, Tensor residual,
               const PackedRow& row, const Selection& selection, Saved* saved, Keep keep) const;
  // dh [T, hidden] overwritten. Uses the same selection as the forward.
  void backward(Context& ctx, Tensor dh, Tensor dy, const PackedRow& row,
                const Selection& selection, const Saved& saved) const;

 private:
  struct Heads;  // per-head views of the projections
  double scale() const;
  void attend(Context& ctx, const PackedRow& row, const Selection& selection, const Heads& heads,
              const Saved& s) const;
  void gather_forward(Context& ctx, const PackedRow& row, const Selection& selection,
                      const Heads& heads, Saved& s, bool has_out, Keep keep) const;
  void gather_backward(Context& ctx, const PackedRow& row, const Selection& selection,
                       const Heads& heads, const Saved& saved, Tensor dout, Tensor dq,
                       Tensor dlatent, Tensor dk_rope) const;
};

}  // namespace glmtune::nn
