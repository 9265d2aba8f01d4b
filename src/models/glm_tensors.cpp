// The tensors of a checkpoint, by name.
#include "base/cat.h"
#include "models/glm_config.h"

namespace glmtune::models {
namespace {

class List {
 public:
  explicit List(const GlmConfig& config) : c_(config) {}

  std::vector<TensorSpec> take() { return std::move(out_); }

  void matrix(std::string name, std::int64_t rows, std::int64_t columns, std::string_view component,
              bool quantizable) {
    add({.name = std::move(name),
         .shape = {rows, columns},
         .component = component,
         .quantizable = quantizable});
  }
  void norm(std::string name, std::int64_t size, std::string_view component) {
    add({.name = std::move(name),
         .shape = {size},
         .component = component,
         .initializer = Initializer::kOnes});
  }

  void layer(const std::string& prefix, bool full, bool sparse) {
    norm(prefix + "input_layernorm.weight", c_.hidden_size, "norms");
    attention(prefix + "self_attn.");
    if (full) indexer(prefix + "self_attn.indexer.");
    norm(prefix + "post_attention_layernorm.weight", c_.hidden_size, "norms");
    if (sparse) {
      moe(prefix + "mlp.");
    } else {
      mlp(prefix + "mlp.", c_.intermediate_size, "dense_mlp");
    }
  }

  // A full MoE layer with an indexer of its own and the projection that joins the previous hidden
  // state (hnorm) with the next token's embedding (enorm).
  void mtp_layer(const std::string& prefix) {
    pass_through_ = true;
    layer(prefix, true, true);
    matrix(prefix + "eh_proj.weight", c_.hidden_size, 2 * c_.hidden_size, "mtp", false);
    norm(prefix + "enorm.weight", c_.hidden_size, "mtp");
    norm(prefix + "hnorm.weight", c_.hidden_size, "mtp");
    norm(prefix + "shared_head.norm.weight", c_.hidden_size, "mtp");
    pass_through_ = false;
  }

 private:
  void add(TensorSpec spec) {
    spec.pass_through = pass_through_;
    if (pass_through_) spec.component = "mtp";
    out_.push_back(std::move(spec));
  }

  void attention(const std::string& p) {
    const std::int64_t heads = c_.num_attention_heads;
    matrix(p + "q_a_proj.weight", c_.q_lora_rank, c_.hidden_size, "attention", true);
    norm(p + "q_a_layernorm.weight", c_.q_lora_rank, "attention");
    matrix(p + "q_b_proj.weight", heads * c_.qk_head_dim(), c_.q_lora_rank, "attention", true);
    matrix(p + "kv_a_proj_with_mqa.weight", c_.kv_lora_rank + c_.qk_rope_head_dim, c_.hidden_size,
           "attention", true);
    norm(p + "kv_a_layernorm.weight", c_.kv_lora_rank, "attention");
    matrix(p + "kv_b_proj.weight", heads * (c_.qk_nope_head_dim + c_.v_head_dim), c_.kv_lora_rank,
           "attention", true);
    matrix(p + "o_proj.weight", c_.hidden_size, heads * c_.v_head_dim, "attention", true);
  }

  void indexer(const std::string& p) {
    matrix(p + "wq_b.weight", c_.index_n_heads * c_.index_head_dim, c_.q_lora_rank, "indexer",
           true);
    matrix(p + "wk.weight", c_.index_head_dim, c_.hidden_size, "indexer", true);
    norm(p + "k_norm.weight", c_.index_head_dim, "indexer");
    add({.name = p + "k_norm.bias",
         .shape = {c_.index_head_dim},
         .component = "indexer",
         .initializer = Initializer::kZeros});
    matrix(p + "weights_proj.weight", c_.index_n_heads, c_.hidden_size, "indexer", false);
  }

  void mlp(const std::string& p, std::int64_t width, std::string_view component) {
    matrix(p + "gate_proj.weight", width, c_.hidden_size, component, true);
    matrix(p + "up_proj.weight", width, c_.hidden_size, component, true);
    matrix(p + "down_proj.weight", c_.hidden_size, width, component, true);
  }

  void moe(const std::string& p) {
    matrix(p + "gate.weight", c_.n_routed_experts, c_.hidden_size, "router", false);
    add({.name = p + "gate.e_score_correction_bias",
         .shape = {c_.n_routed_experts},
         .component = "router",
         .initializer = Initializer::kZeros,
         .always_f32 = true});
    for (std::int64_t e = 0; e < c_.n_routed_experts; ++e) {
      mlp(cat(p, "experts.", e, "."), c_.moe_intermediate_size, "experts");
    }
    mlp(p + "shared_experts.", c_.shared_intermediate_size(), "shared_experts");
  }

  const GlmConfig& c_;
  std::vector<TensorSpec> out_;
  bool pass_through_ = false;
};

}  // namespace

std::int64_t TensorSpec::count() const {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

std::vector<TensorSpec> expected_tensors(const GlmConfig& config) {
  List list(config);
  list.matrix("model.embed_tokens.weight", config.vocab_size, config.hidden_size, "embedding",
              false);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    list.layer(cat("model.layers.", i, "."), config.is_full(i), config.is_sparse(i));
  }
  list.norm("model.norm.weight", config.hidden_size, "norms");
  if (!config.tie_word_embeddings) {
    list.matrix("lm_head.weight", config.vocab_size, config.hidden_size, "lm_head", false);
  }
  for (std::int64_t i = 0; i < config.num_nextn_predict_layers; ++i) {
    list.mtp_layer(cat("model.layers.", config.num_hidden_layers + i, "."));
  }
  return list.take();
}

}  // namespace glmtune::models
