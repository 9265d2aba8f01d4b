#include "nn/decoder_layer.h"

namespace glmtune::nn {

void DecoderLayer::forward(Context& ctx, Tensor y, Tensor x, const PackedRow& row,
                           const LayerDecisions& decisions, Mode mode, Saved* saved) const {
  const Scope scope(*ctx.scratch);
  const bool keep = saved != nullptr;
  Arena& arena = ctx.keep(keep);
  const std::int64_t T = x.size(0), C = x.size(1);

  const Tensor h = arena.make({T, C}, x.dtype);
  const Tensor middle = arena.make({T, C}, x.dtype);
  input_layernorm.forward(ctx, h, x, keep ? &saved->input_norm : nullptr);
  {
    const Scope attention_scope(*ctx.scratch);
    MlaAttention::Saved* s = keep ? &saved->attention : nullptr;
    const Tensor q_res = self_attn.query_latent(ctx, h, s);
    if (indexer && !mode.replay) indexer->select(ctx, decisions.selection, q_res, h, row);
    self_attn.forward(ctx, middle, h, q_res, x, row, decisions.selection, s);
  }
  const Tensor h2 = arena.make({T, C}, x.dtype);
  post_attention_layernorm.forward(ctx, h2, middle, keep ? &saved->post_norm : nullptr);
  if (mlp)
    mlp->forward(ctx, y, h2, middle, keep ? &saved->mlp : nullptr);
  else
    moe->forward(ctx, y, h2, middle, decisions.routing,
                 {.replay = mode.replay, .count_load = mode.count_load},
                 keep ? &saved->moe : nullptr);
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
