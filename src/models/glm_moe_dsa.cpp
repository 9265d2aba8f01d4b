#include "models/glm_moe_dsa.h"

#include <algorithm>

#include "base/cat.h"
#include "ops/embedding.h"
#include "ops/matmul.h"

namespace glmtune::models {
namespace {

using nn::Parameter;

// What the layers' forward leaves for the backward.
nn::Keep keep_of(const PassOptions& options) {
  if (!options.backward || options.recompute == Recompute::kFull) return nn::Keep::kNothing;
  return options.recompute == Recompute::kNone ? nn::Keep::kAll : nn::Keep::kSelected;
}

struct Builder {
  const GlmConfig& c;
  DType dtype;
  double latent_norm_eps;

  Parameter parameter(const std::string& name, Shape shape, bool trainable = true) const {
    return {.name = name,
            .value = Tensor::dense(nullptr, shape, dtype, Device::kMeta),
            .trainable = trainable};
  }
  nn::Linear linear(const std::string& name, std::int64_t out, std::int64_t in,
                    bool trainable = true) const {
    return {.weight = parameter(name + ".weight", {out, in}, trainable)};
  }
  nn::RmsNorm norm(const std::string& name, std::int64_t size, double eps) const {
    return {.weight = parameter(name + ".weight", {size}), .eps = eps};
  }
  nn::Mlp mlp(const std::string& name, std::int64_t intermediate) const {
    return {.gate_proj = linear(name + ".gate_proj", intermediate, c.hidden_size),
            .up_proj = linear(name + ".up_proj", intermediate, c.hidden_size),
            .down_proj = linear(name + ".down_proj", c.hidden_size, intermediate)};
  }

  nn::MlaAttention attention(const std::string& name) const {
    const std::int64_t H = c.num_attention_heads, C = c.hidden_size;
    const std::int64_t qk = c.qk_nope_head_dim + c.qk_rope_head_dim;
    return {.num_attention_heads = H,
            .qk_nope_head_dim = c.qk_nope_head_dim,
            .qk_rope_head_dim = c.qk_rope_head_dim,
            .v_head_dim = c.v_head_dim,
            .q_lora_rank = c.q_lora_rank,
            .kv_lora_rank = c.kv_lora_rank,
            .rope_theta = c.rope_theta,
            .q_a_proj = linear(name + ".q_a_proj", c.q_lora_rank, C),
            .q_a_layernorm = norm(name + ".q_a_layernorm", c.q_lora_rank, latent_norm_eps),
            .q_b_proj = linear(name + ".q_b_proj", H * qk, c.q_lora_rank),
            .kv_a_proj_with_mqa =
                linear(name + ".kv_a_proj_with_mqa", c.kv_lora_rank + c.qk_rope_head_dim, C),
            .kv_a_layernorm = norm(name + ".kv_a_layernorm", c.kv_lora_rank, latent_norm_eps),
            .kv_b_proj = linear(name + ".kv_b_proj", H * (c.qk_nope_head_dim + c.v_head_dim),
                                c.kv_lora_rank),
            .o_proj = linear(name + ".o_proj", C, H * c.v_head_dim)};
  }

  nn::DsaIndexer indexer(const std::string& name) const {
    return {
        .index_n_heads = c.index_n_heads,
        .index_head_dim = c.index_head_dim,
        .index_topk = c.index_topk,
        .qk_rope_head_dim = c.qk_rope_head_dim,
        .rope_theta = c.rope_theta,
        .rope_layout =
            c.indexer_rope_interleave ? ops::RopeLayout::kInterleaved : ops::RopeLayout::kHalfSplit,
        .wq_b = linear(name + ".wq_b", c.index_n_heads * c.index_head_dim, c.q_lora_rank, false),
        .wk = linear(name + ".wk", c.index_head_dim, c.hidden_size, false),
        .k_norm_weight = parameter(name + ".k_norm.weight", {c.index_head_dim}, false),
        .k_norm_bias = parameter(name + ".k_norm.bias", {c.index_head_dim}, false),
        .weights_proj = linear(name + ".weights_proj", c.index_n_heads, c.hidden_size, false)};
  }

  nn::MoeMlp moe(const std::string& name) const {
    const std::int64_t E = c.n_routed_experts, C = c.hidden_size, I = c.moe_intermediate_size;
    nn::MoeMlp m;
    m.router = {
        .num_experts_per_tok = c.num_experts_per_tok,
        .n_group = c.n_group,
        .topk_group = c.topk_group,
        .norm_topk_prob = c.norm_topk_prob,
        .routed_scaling_factor = c.routed_scaling_factor,
        .gate = linear(name + ".gate", E, C),
        .e_score_correction_bias = parameter(name + ".gate.e_score_correction_bias", {E}, false),
        .load = {}};
    m.router.e_score_correction_bias.value =
        Tensor::dense(nullptr, {E}, DType::kF32, Device::kMeta);
    m.experts = {.gate_up_proj = parameter(name + ".experts.gate_up_proj", {E, 2 * I, C}),
                 .down_proj = parameter(name + ".experts.down_proj", {E, C, I})};
    if (c.n_shared_experts > 0)
      m.shared_experts = mlp(name + ".shared_experts", c.shared_intermediate_size());
    return m;
  }

  nn::DecoderLayer layer(std::int64_t i) const {
    const std::string name = cat("model.layers.", i);
    nn::DecoderLayer l;
    l.input_layernorm = norm(name + ".input_layernorm", c.hidden_size, c.rms_norm_eps);
    l.post_attention_layernorm =
        norm(name + ".post_attention_layernorm", c.hidden_size, c.rms_norm_eps);
    l.self_attn = attention(name + ".self_attn");
    if (c.is_full(i)) l.indexer = indexer(name + ".self_attn.indexer");
    if (c.is_sparse(i))
      l.moe = moe(name + ".mlp");
    else
      l.mlp = mlp(name + ".mlp", c.intermediate_size);
    return l;
  }
};

void visit(nn::Linear& linear, const nn::ParameterVisitor& f) {
  f(linear.weight);
}
void visit(nn::Mlp& mlp, const nn::ParameterVisitor& f) {
  for (nn::Linear* l : {&mlp.gate_proj, &mlp.up_proj, &mlp.down_proj}) visit(*l, f);
}
void visit(nn::DecoderLayer& layer, const nn::ParameterVisitor& f) {
  f(layer.input_layernorm.weight);
  nn::MlaAttention& a = layer.self_attn;
  visit(a.q_a_proj, f);
  f(a.q_a_layernorm.weight);
  visit(a.q_b_proj, f);
  visit(a.kv_a_proj_with_mqa, f);
  f(a.kv_a_layernorm.weight);
  visit(a.kv_b_proj, f);
  visit(a.o_proj, f);
  if (layer.indexer) {
    visit(layer.indexer->wq_b, f);
    visit(layer.indexer->wk, f);
    f(layer.indexer->k_norm_weight);
    f(layer.indexer->k_norm_bias);
    visit(layer.indexer->weights_proj, f);
  }
  f(layer.post_attention_layernorm.weight);
  if (layer.mlp) visit(*layer.mlp, f);
  if (layer.moe) {
    visit(layer.moe->router.gate, f);
    f(layer.moe->router.e_score_correction_bias);
    f(layer.moe->experts.gate_up_proj);
    f(layer.moe->experts.down_proj);
    if (layer.moe->shared_experts) visit(*layer.moe->shared_experts, f);
  }
}

}  // namespace

GlmMoeDsa::GlmMoeDsa(const GlmConfig& config, DType dtype, double latent_norm_eps)
    : config_(config) {
  const Builder build{.c = config, .dtype = dtype, .latent_norm_eps = latent_norm_eps};
  attention_.index_topk = config.index_topk;
  embed_tokens_ =
      build.parameter("model.embed_tokens.weight", {config.vocab_size, config.hidden_size});
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) layers_.push_back(build.layer(i));
  norm_ = build.norm("model.norm", config.hidden_size, config.rms_norm_eps);
  lm_head_ = build.linear("lm_head", config.vocab_size, config.hidden_size);
  head_.chunk_rows = nn::LmHead::rows_for(config.vocab_size);
}

void GlmMoeDsa::visit_parameters(const nn::ParameterVisitor& visit_parameter) {
  visit_parameter(embed_tokens_);
  for (nn::DecoderLayer& layer : layers_) visit(layer, visit_parameter);
  visit_parameter(norm_.weight);
  if (config_.tie_word_embeddings)
    lm_head_.weight = embed_tokens_;  // the same memory, and one word on its gradient's beginning
  else
    visit_parameter(lm_head_.weight);
}

void GlmMoeDsa::visit_routers(const std::function<void(std::int64_t, nn::Router&)>& visit_router) {
  for (std::size_t i = 0; i < layers_.size(); ++i)
    if (layers_[i].moe) visit_router(static_cast<std::int64_t>(i), layers_[i].moe->router);
}

struct GlmMoeDsa::Tape {
  std::vector<Tensor> inputs;  // of each layer; the last one: of the final norm
  std::vector<nn::LayerDecisions> decisions;
  std::vector<nn::DecoderLayer::Saved> layers;  // what Keep says; the rest comes by recompute
  nn::RmsNorm::Saved norm;
  Tensor normed;  // [T, C] after the final norm
};

void GlmMoeDsa::run(Context& ctx, const nn::PackedRow& row, Tensor loss_sum,
                    const PassOptions& options, const Probe* probe) const {
  using glmtune::run;
  const Scope saved_scope(*ctx.saved);
  const Scope scratch_scope(*ctx.scratch);
  Tape tape;
  forward(ctx, row, options, probe, tape);
  if (probe != nullptr && probe->logits) {
    const Scope scope(*ctx.scratch);
    const Tensor logits = ctx.scratch->make({row.tokens, vocab_size()}, tape.normed.dtype);
    lm_head_.forward(ctx, logits, tape.normed, nullptr);
    probe->logits(logits);
  }
  Tensor dx;
  if (options.backward)
    dx = ctx.scratch->make({row.tokens, config_.hidden_size}, tape.normed.dtype);
  head_.run(ctx, loss_sum, dx, lm_head_, tape.normed, row, options.grad_scale);
  if (options.backward) backward(ctx, row, options, dx, tape);
}

void GlmMoeDsa::forward(Context& ctx, const nn::PackedRow& row, const PassOptions& options,
                        const Probe* probe, Tape& tape) const {
  const DType dtype = embed_tokens_.value.dtype;
  const std::int64_t T = row.tokens, C = config_.hidden_size;
  const nn::Keep keep = keep_of(options);
  const std::size_t layers = layers_.size();
  // Without a backward two buffers take turns; with one, every layer's input stays.
  Arena& arena = ctx.keep(options.backward);
  Tensor turns[2];
  if (!options.backward)
    for (Tensor& t : turns) t = arena.make({T, C}, dtype);
  const auto next_input = [&](std::size_t i) {
    return options.backward ? arena.make({T, C}, dtype) : turns[i % 2];
  };

  tape.inputs.push_back(next_input(0));
  glmtune::run(ctx,
               ops::Embedding{.y = tape.inputs[0], .ids = row.ids, .table = embed_tokens_.value});
  tape.decisions.resize(layers);
  tape.layers.resize(layers);
  nn::Selection selection;
  for (std::size_t i = 0; i < layers; ++i) {
    const nn::DecoderLayer& layer = layers_[i];
    if (probe != nullptr && probe->hidden)
      probe->hidden(static_cast<std::int64_t>(i), tape.inputs[i]);
    tape.inputs.push_back(next_input(i + 1));
    if (layer.indexer) selection = layer.indexer->allocate(*ctx.saved, row);
    tape.decisions[i].selection = selection;
    if (layer.moe) tape.decisions[i].routing = layer.moe->allocate_routing(*ctx.saved, T);
    layer.forward(ctx, tape.inputs[i + 1], tape.inputs[i], row, tape.decisions[i],
                  {.count_load = options.count_load, .keep = keep},
                  keep == nn::Keep::kNothing ? nullptr : &tape.layers[i]);
    if (probe != nullptr && probe->selection)
      probe->selection(static_cast<std::int64_t>(i), row, selection);
    if (probe != nullptr && probe->experts && layer.moe)
      probe->experts(static_cast<std::int64_t>(i), tape.decisions[i].routing.expert_ids);
  }
  tape.normed = arena.make({T, C}, dtype);
  norm_.forward(ctx, tape.normed, tape.inputs[layers], options.backward ? &tape.norm : nullptr);
  if (probe != nullptr && probe->hidden)
    probe->hidden(static_cast<std::int64_t>(layers), tape.normed);
}

void GlmMoeDsa::backward(Context& ctx, const nn::PackedRow& row, const PassOptions& options,
                         Tensor dx, Tape& tape) const {
  norm_.backward(ctx, dx, dx, tape.norm);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Scope scope(*ctx.saved);
    if (options.recompute != Recompute::kNone)
      layers_[i].forward(ctx, {}, tape.inputs[i], row, tape.decisions[i],
                         {.replay = true, .keep = nn::Keep::kAll}, &tape.layers[i]);
    layers_[i].backward(ctx, dx, dx, row, tape.decisions[i], tape.layers[i]);
    tape.layers[i] = {};
  }
  if (embed_tokens_.grad.defined())
    glmtune::run(ctx, ops::EmbeddingBackward{
                          .dtable = embed_tokens_.grad_to_add_to(ctx), .dy = dx, .ids = row.ids});
}

std::unique_ptr<CausalLm> make_model(const GlmConfig& config, DType dtype, double latent_norm_eps) {
  return std::make_unique<GlmMoeDsa>(config, dtype, latent_norm_eps);
}

}  // namespace glmtune::models
