#include "models/known_configs.h"

#include <array>
#include <iterator>

namespace glmtune::models {
namespace {

constexpr int kLayers = 78;

enum class Generation : std::uint8_t { k5, k52 };  // 5 and 5.1 share a shape, 5.2 and 5.3 another

struct Release {
  std::string_view id;
  Generation generation;
  bool fp8;
};

constexpr std::array<Release, 8> kReleases{{
    {"zai-org/GLM-5", Generation::k5, false},
    {"zai-org/GLM-5.1", Generation::k5, false},
    {"zai-org/GLM-5.2", Generation::k52, false},
    {"zai-org/GLM-5.3", Generation::k52, true},
    {"zai-org/GLM-5-FP8", Generation::k5, true},
    {"zai-org/GLM-5.1-FP8", Generation::k5, true},
    {"zai-org/GLM-5.2-FP8", Generation::k52, true},
    {"zai-org/GLM-5.3-BF16", Generation::k52, false},
}};

io::Value::Object common() {
  return {
      {"architectures", io::Value::Array{"GlmMoeDsaForCausalLM"}},
      {"model_type", "glm_moe_dsa"},
      {"dtype", "bfloat16"},
      {"vocab_size", 154880},
      {"hidden_size", 6144},
      {"num_hidden_layers", kLayers},
      {"num_nextn_predict_layers", 1},
      {"num_attention_heads", 64},
      {"num_key_value_heads", 64},
      {"q_lora_rank", 2048},
      {"kv_lora_rank", 512},
      {"qk_nope_head_dim", 192},
      {"qk_rope_head_dim", 64},
      {"qk_head_dim", 256},
      {"v_head_dim", 256},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"rope_interleave", true},
      {"indexer_rope_interleave", true},
      {"index_n_heads", 32},
      {"index_head_dim", 128},
      {"index_topk", 2048},
      {"intermediate_size", 12288},
      {"moe_intermediate_size", 2048},
      {"n_routed_experts", 256},
      {"num_experts_per_tok", 8},
      {"n_shared_experts", 1},
      {"first_k_dense_replace", 3},
      {"moe_layer_freq", 1},
      {"n_group", 1},
      {"topk_group", 1},
      {"scoring_func", "sigmoid"},
      {"topk_method", "noaux_tc"},
      {"norm_topk_prob", true},
      {"routed_scaling_factor", 2.5},
      {"hidden_act", "silu"},
      {"rms_norm_eps", 1e-5},
      {"initializer_range", 0.02},
      {"tie_word_embeddings", false},
      {"use_cache", true},
      {"eos_token_id", io::Value::Array{154820, 154827, 154829}},
      {"pad_token_id", 154820},
      {"ep_size", 1},
      {"pretraining_tp", 1},
  };
}

io::Value rope(int theta) {
  return io::Value::Object{{"rope_type", "default"}, {"rope_theta", theta}};
}

// Full indexers in layers 0, 1, 2 and every fourth from 6 on: 21; the other 57 share.
io::Value indexer_types() {
  io::Value::Array types;
  for (int layer = 0; layer < kLayers; ++layer)
    types.emplace_back(layer < 3 || (layer - 2) % 4 == 0 ? "full" : "shared");
  return types;
}

io::Value mlp_layer_types() {
  io::Value::Array types;
  for (int layer = 0; layer < kLayers; ++layer) types.emplace_back(layer < 3 ? "dense" : "sparse");
  return types;
}

io::Value fp8() {
  return io::Value::Object{{"quant_method", "fp8"},
                           {"fmt", "e4m3"},
                           {"activation_scheme", "dynamic"},
                           {"weight_block_size", io::Value::Array{128, 128}}};
}

}  // namespace

std::optional<io::Value> known_config(std::string_view hub_id) {
  for (const Release& release : kReleases) {
    if (release.id != hub_id) continue;
    io::Value config = common();
    if (release.generation == Generation::k5) {
      config.set("head_dim", 64);
      config.set("max_position_embeddings", 202752);
      config.set("rope_parameters", rope(1000000));
    } else {
      config.set("head_dim", 192);
      config.set("max_position_embeddings", 1048576);
      config.set("rope_parameters", rope(8000000));
      config.set("index_topk_freq", 4);
      config.set("index_skip_topk_offset", 3);
      config.set("index_topk_pattern", nullptr);
      config.set("index_share_for_mtp_iteration", true);
      config.set("indexer_types", indexer_types());
      config.set("mlp_layer_types", mlp_layer_types());
    }
    if (release.fp8) config.set("quantization_config", fp8());
    return config;
  }
  return std::nullopt;
}

std::vector<std::string> known_config_ids() {
  std::vector<std::string> ids;
  ids.reserve(std::size(kReleases));
  for (const Release& release : kReleases) ids.emplace_back(release.id);
  return ids;
}

std::string other_architecture(std::string_view hub_id) {
  if (hub_id.find("GLM-5.3-Flash") == std::string_view::npos) return "";
  return "GLM-5.3-Flash is another architecture (glm5_next), which is not supported; the GLM-5 "
         "family here is GLM-5, 5.1, 5.2 and 5.3";
}

}  // namespace glmtune::models
