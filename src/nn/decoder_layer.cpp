#include "nn/decoder_layer.h"

namespace glmtune::nn {

void DecoderLayer::forward(Context& ctx, Tensor y, Tensor x, const PackedRow& row,
                           const LayerDecisions& decisions, Mode mode, Saved* saved) const {
  check((saved != nullptr) == (mode.keep != Keep::kNothing),
        "a layer's forward keeps something where `saved` is given, and only there");
  const Scope scope(*ctx.scratch);
  const bool keep_all = mode.keep == Keep::kAll;
  Arena& arena = arena_of(ctx, mode.keep);
  const std::int64_t T = x.size(0), C = x.size(1);

  const Tensor h = arena.make({T, C}, x.dtype);
  Tensor middle = saved != nullptr ? saved->middle : Tensor{};
  const bool has_middle = middle.defined();
  if (!has_middle) middle = arena_of_selected(ctx, mode.keep).make({T, C}, x.dtype);
  input_layernorm.forward(ctx, h, x, keep_all ? &saved->input_norm : nullptr);
  {
    const Scope attention_scope(*ctx.scratch);
    MlaAttention::Saved* s = saved != nullptr ? &saved->attention : nullptr;
    const Tensor q_res = self_attn.query_latent(ctx, h, s, mode.keep);
    if (indexer && !mode.replay) indexer->select(ctx, decisions.selection, q_res, h, row);
    self_attn.forward(ctx, has_middle ? Tensor{} : middle, h, q_res, x, row, decisions.selection, s,
                      mode.keep);
  }
  if (saved != nullptr) saved->middle = middle;
  const Tensor h2 = arena.make({T, C}, x.dtype);
  post_attention_layernorm.forward(ctx, h2, middle, keep_all ? &saved->post_norm : nullptr);
  if (mlp)
    mlp->forward(ctx, y, h2, middle, keep_all ? &saved->mlp : nullptr);
  else
    moe->forward(ctx, y, h2, middle, decisions.routing,
                 {.replay = mode.replay, .count_load = mode.count_load},
                 keep_all ? &saved->moe : nullptr);
}

void DecoderLayer::backward(Context& ctx, Tensor dx, Tensor dy, const PackedRow& row,
                            const LayerDecisions& decisions, const Saved& saved) const {
  const Scope scope(*ctx.scratch);
  const std::int64_t T = dy.size(0), C = dy.size(1);
  const Tensor dh = ctx.scratch->make({T, C}, dy.dtype);
  const Tensor dmiddle = ctx.scratch->make({T, C}, dy.dtype);
  if (mlp)
    mlp->backward(ctx, dh, dy, saved.mlp);
  else
    moe->backward(ctx, dh, dy, decisions.routing, saved.moe);
  post_attention_layernorm.backward(ctx, dmiddle, dh, saved.post_norm, dy);
  self_attn.backward(ctx, dh, dmiddle, row, decisions.selection, saved.attention);
  input_layernorm.backward(ctx, dx, dh, saved.input_norm, dmiddle);
}

}  // namespace glmtune::nn
