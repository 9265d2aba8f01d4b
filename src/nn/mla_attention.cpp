#include "nn/mla_attention.h"

#include <cmath>

#include "ops/attention.h"
#include "ops/matmul.h"
#include "ops/rope.h"

namespace glmtune::nn {

// Views of the expanded keys and values, and of kv_b_proj's two halves per head.
struct MlaAttention::Heads {
  std::int64_t H, N, P, V, R;

  Tensor q(Tensor flat) const { return flat.reshape({flat.size(0), H, N + P}); }
  Tensor q_nope(Tensor flat) const { return q(flat).slice(2, 0, N); }
  Tensor q_rope(Tensor flat) const { return q(flat).slice(2, N, N + P); }
  Tensor k_nope(Tensor kv) const { return kv.reshape({kv.size(0), H, N + V}).slice(2, 0, N); }
  Tensor v(Tensor kv) const { return kv.reshape({kv.size(0), H, N + V}).slice(2, N, N + V); }
  Tensor out(Tensor flat) const { return flat.reshape({flat.size(0), H, V}); }
  Tensor w_k(Tensor kv_b) const { return kv_b.reshape({H, N + V, R}).slice(1, 0, N); }
  Tensor w_v(Tensor kv_b) const { return kv_b.reshape({H, N + V, R}).slice(1, N, N + V); }
  static Tensor by_head(Tensor rows) { return rows.transpose(0, 1); }  // [n, H, x] -> [H, n, x]
};

double MlaAttention::scale() const {
  return 1.0 / std::sqrt(static_cast<double>(qk_nope_head_dim + qk_rope_head_dim));
}

MlaAttention::Saved MlaAttention::Saved::selected() const {
  Saved s;
  s.q_a_out = q_a_out;
  s.kv_a_out = kv_a_out;
  s.lse = lse;
  if (lse.defined()) s.out = out;
  for (const Gathered& g : gathered)
    s.gathered.push_back({.q_latent = {}, .out_latent = g.out_latent, .lse = g.lse});
  return s;
}

Tensor MlaAttention::query_latent(Context& ctx, Tensor h, Saved* saved, Keep keep) const {
  Tensor q_a = saved != nullptr ? saved->q_a_out : Tensor{};
  if (!q_a.defined()) {
    q_a = arena_of_selected(ctx, keep).make({h.size(0), q_lora_rank}, h.dtype);
    q_a_proj.forward(ctx, q_a, h, nullptr);
  }
  const Tensor q_res = arena_of(ctx, keep).make({h.size(0), q_lora_rank}, h.dtype);
  q_a_layernorm.forward(ctx, q_res, q_a, keep == Keep::kAll ? &saved->q_norm : nullptr);
  if (saved != nullptr) {
    saved->q_a.x = h;
    saved->q_a_out = q_a;
  }
  return q_res;
}

void MlaAttention::forward(Context& ctx, Tensor y, Tensor h, Tensor q_res, Tensor residual,
                           const PackedRow& row, const Selection& selection, Saved* saved,
                           Keep keep) const {
  const Scope scope(*ctx.scratch);
  Arena &arena = arena_of(ctx, keep), &selected = arena_of_selected(ctx, keep);
  const Heads heads{num_attention_heads, qk_nope_head_dim, qk_rope_head_dim, v_head_dim,
                    kv_lora_rank};
  const std::int64_t T = h.size(0), H = heads.H;
  Saved local;
  Saved& s = saved != nullptr ? *saved : local;
  const auto rotate = [&](Tensor x) {
    run(ctx, ops::Rope{.x = x, .positions = row.positions, .theta = rope_theta});
  };

  s.q = arena.make({T, H * (heads.N + heads.P)}, h.dtype);
  q_b_proj.forward(ctx, s.q, q_res, &s.q_b);
  rotate(heads.q_rope(s.q));
  s.kv_a.x = h;
  if (!s.kv_a_out.defined()) {
    s.kv_a_out = selected.make({T, heads.R + heads.P}, h.dtype);
    kv_a_proj_with_mqa.forward(ctx, s.kv_a_out, h, nullptr);
    rotate(s.kv_a_out.reshape({T, 1, heads.R + heads.P}).slice(2, heads.R, heads.R + heads.P));
  }
  s.latent = arena.make({T, heads.R}, h.dtype);
  kv_a_layernorm.forward(ctx, s.latent, s.kv_a_out.slice(1, 0, heads.R),
                         keep == Keep::kAll ? &s.kv_norm : nullptr);

  const bool expands = !row.expanded.empty(), has_out = s.out.defined();
  if (!has_out) s.out = (expands ? selected : arena).make({T, H * heads.V}, h.dtype);
  if (expands) {
    if (!has_out) s.lse = selected.make({H, T}, wide(h.dtype));
    s.kv = arena.make({T, H * (heads.N + heads.V)}, h.dtype);
    for (const RowRange& r : row.expanded)
      kv_b_proj.forward(ctx, s.kv.rows(r.begin, r.end), s.latent.rows(r.begin, r.end), nullptr);
    if (!has_out) attend(ctx, row, selection, heads, s);
  }
  gather_forward(ctx, row, selection, heads, s, has_out, keep);
  s.o.x = s.out;
  if (y.defined()) o_proj.forward(ctx, y, s.out, nullptr, residual);
  if (keep == Keep::kSelected) s = s.selected();
}

void MlaAttention::attend(Context& ctx, const PackedRow& row, const Selection& selection,
                          const Heads& heads, const Saved& s) const {
  for (const bool with_mask : {false, true}) {
    const ops::Documents& documents = with_mask ? row.masked : row.dense;
    if (documents.count > 0)
      run(ctx, ops::CausalAttention{.out = heads.out(s.out),
                                    .lse = s.lse,
                                    .q = heads.q(s.q),
                                    .k_nope = heads.k_nope(s.kv),
                                    .k_rope = s.kv_a_out.slice(1, heads.R, heads.R + heads.P),
                                    .v = heads.v(s.kv),
                                    .mask = with_mask ? selection.mask : Tensor{},
                                    .documents = documents,
                                    .scale = scale()});
  }
}

void MlaAttention::gather_forward(Context& ctx, const PackedRow& row, const Selection& selection,
                                  const Heads& heads, Saved& s, bool has_out, Keep keep) const {
  const Tensor k_rope = s.kv_a_out.slice(1, heads.R, heads.R + heads.P);
  std::int64_t at = 0;  // first row of the document in the selection's lists
  s.gathered.resize(row.gather.size());
  for (std::size_t d = 0; d < row.gather.size(); ++d) {
    const Scope scope(*ctx.scratch);
    const RowRange doc = row.gather[d];
    const std::int64_t n = doc.size();
    const Tensor q = s.q.rows(doc.begin, doc.end);
    Saved::Gathered& g = s.gathered[d];
    g.q_latent = arena_of(ctx, keep).make({n, heads.H, heads.R}, q.dtype);
    run(ctx, ops::Matmul{.out = Heads::by_head(g.q_latent),
                         .a = Heads::by_head(heads.q_nope(q)),
                         .b = heads.w_k(kv_b_proj.weight.value)});
    if (!g.out_latent.defined()) {
      g.out_latent = arena_of_selected(ctx, keep).make({n, heads.H, heads.R}, q.dtype);
      g.lse = arena_of_selected(ctx, keep).make({heads.H, n}, wide(q.dtype));
      run(ctx, ops::SparseMla{.out_latent = g.out_latent,
                              .lse = g.lse,
                              .q_latent = g.q_latent,
                              .q_rope = heads.q_rope(q),
                              .latent = s.latent.rows(doc.begin, doc.end),
                              .k_rope = k_rope.rows(doc.begin, doc.end),
                              .indices = selection.indices.rows(at, at + n),
                              .counts = selection.counts.rows(at, at + n),
                              .scale = scale()});
    }
    if (!has_out)
      run(ctx, ops::Matmul{.out = Heads::by_head(heads.out(s.out.rows(doc.begin, doc.end))),
                           .a = Heads::by_head(g.out_latent),
                           .b = heads.w_v(kv_b_proj.weight.value),
                           .trans_b = true});
    at += n;
  }
}

void MlaAttention::backward(Context& ctx, Tensor dh, Tensor dy, const PackedRow& row,
                            const Selection& selection, const Saved& s) const {
  const Scope scope(*ctx.scratch);
  Arena& scratch = *ctx.scratch;
  const Heads heads{num_attention_heads, qk_nope_head_dim, qk_rope_head_dim, v_head_dim,
                    kv_lora_rank};
  const std::int64_t T = dy.size(0), H = heads.H, R = heads.R, P = heads.P;
  const DType dtype = dy.dtype;

  const Tensor dq = scratch.make({T, H * (heads.N + P)}, dtype);
  const Tensor dlatent = scratch.make({T, R}, dtype);
  const Tensor dkv_a = scratch.make({T, R + P}, dtype);
  const Tensor dk_rope = dkv_a.slice(1, R, R + P);
  {
    const Scope inner(scratch);
    const Tensor dout = scratch.make({T, H * heads.V}, dtype);
    o_proj.backward(ctx, dout, dy, s.o);
    if (!row.expanded.empty()) {
      const Scope expanded(scratch);
      const Tensor dkv = scratch.make({T, H * (heads.N + heads.V)}, dtype);
      for (const bool with_mask : {false, true}) {
        const ops::Documents& documents = with_mask ? row.masked : row.dense;
        if (documents.count > 0)
          run(ctx, ops::CausalAttentionBackward{.dq = heads.q(dq),
                                                .dk_nope = heads.k_nope(dkv),
                                                .dk_rope = dk_rope,
                                                .dv = heads.v(dkv),
                                                .dout = heads.out(dout),
                                                .out = heads.out(s.out),
                                                .lse = s.lse,
                                                .q = heads.q(s.q),
                                                .k_nope = heads.k_nope(s.kv),
                                                .k_rope = s.kv_a_out.slice(1, R, R + P),
                                                .v = heads.v(s.kv),
                                                .mask = with_mask ? selection.mask : Tensor{},
                                                .documents = documents,
                                                .scale = scale()});
      }
      for (const RowRange& r : row.expanded)
        kv_b_proj.backward(ctx, dlatent.rows(r.begin, r.end), dkv.rows(r.begin, r.end),
                           Linear::Saved{.x = s.latent.rows(r.begin, r.end)});
    }
    gather_backward(ctx, row, selection, heads, s, dout, dq, dlatent, dk_rope);
  }

  for (const Tensor& x : {heads.q_rope(dq), dkv_a.reshape({T, 1, R + P}).slice(2, R, R + P)})
    run(ctx, ops::Rope{.x = x, .positions = row.positions, .theta = rope_theta, .inverse = true});
  kv_a_layernorm.backward(ctx, dkv_a.slice(1, 0, R), dlatent, s.kv_norm);
  kv_a_proj_with_mqa.backward(ctx, dh, dkv_a, s.kv_a);

  const Tensor dq_res = scratch.make({T, q_lora_rank}, dtype);
  const Tensor dq_a = scratch.make({T, q_lora_rank}, dtype);
  q_b_proj.backward(ctx, dq_res, dq, s.q_b);
  q_a_layernorm.backward(ctx, dq_a, dq_res, s.q_norm);
  q_a_proj.backward(ctx, dh, dq_a, s.q_a, Linear::BackwardMode{.add_to_dx = true});
}

void MlaAttention::gather_backward(Context& ctx, const PackedRow& row, const Selection& selection,
                                   const Heads& heads, const Saved& s, Tensor dout, Tensor dq,
                                   Tensor dlatent, Tensor dk_rope) const {
  const std::int64_t H = heads.H, R = heads.R;
  const Tensor kv_b = kv_b_proj.weight.value;
  const Tensor dkv_b = kv_b_proj.weight.grad;
  std::int64_t at = 0;
  for (std::size_t d = 0; d < row.gather.size(); ++d) {
    const RowRange doc = row.gather[d];
    const Saved::Gathered& kept = s.gathered[d];
    const Scope scope(*ctx.scratch);
    Arena& scratch = *ctx.scratch;
    const std::int64_t n = doc.size();
    const auto rows = [&](Tensor x) { return x.rows(doc.begin, doc.end); };
    const Tensor dout_by_head = Heads::by_head(heads.out(rows(dout)));
    const Tensor dout_latent = scratch.make({n, H, R}, dout.dtype);
    const Tensor dq_latent = scratch.make({n, H, R}, dout.dtype);
    run(ctx,
        ops::Matmul{.out = Heads::by_head(dout_latent), .a = dout_by_head, .b = heads.w_v(kv_b)});
    run(ctx, ops::SparseMlaBackward{.dq_latent = dq_latent,
                                    .dq_rope = heads.q_rope(rows(dq)),
                                    .dlatent = rows(dlatent),
                                    .dk_rope = rows(dk_rope),
                                    .dout_latent = dout_latent,
                                    .out_latent = kept.out_latent,
                                    .lse = kept.lse,
                                    .q_latent = kept.q_latent,
                                    .q_rope = heads.q_rope(rows(s.q)),
                                    .latent = rows(s.latent),
                                    .k_rope = rows(s.kv_a_out).slice(1, R, R + heads.P),
                                    .indices = selection.indices.rows(at, at + n),
                                    .counts = selection.counts.rows(at, at + n),
                                    .scale = scale()});
    run(ctx, ops::Matmul{.out = Heads::by_head(heads.q_nope(rows(dq))),
                         .a = Heads::by_head(dq_latent),
                         .b = heads.w_k(kv_b),
                         .trans_b = true});
    if (dkv_b.defined()) {
      // The two products cover it together.
      const double beta = kv_b_proj.weight.begin_grad(ctx) ? 0.0 : 1.0;
      run(ctx, ops::Matmul{.out = heads.w_v(dkv_b),
                           .a = dout_by_head,
                           .b = Heads::by_head(kept.out_latent),
                           .trans_a = true,
                           .beta = beta});
      run(ctx, ops::Matmul{.out = heads.w_k(dkv_b),
                           .a = Heads::by_head(heads.q_nope(rows(s.q))),
                           .b = Heads::by_head(dq_latent),
                           .trans_a = true,
                           .beta = beta});
    }
    at += n;
  }
}

}  // namespace glmtune::nn
