#pragma once
// GlmConfig: config.json of the GLM-5 family (GlmMoeDsaForCausalLM), read strictly for every key
// that changes what is computed; keys it does not know are left alone. Field names are the file's.
// Every message names the file and the key.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "tensor/dtype.h"

namespace glmtune::models {

// kFull: the layer has an indexer of its own; kShared: it takes the selected keys of the nearest
// earlier full layer (IndexShare).
enum class IndexerType : std::uint8_t { kFull, kShared };
enum class MlpType : std::uint8_t { kDense, kSparse };

// Block-scaled FP8 weights: W[r, c] = q[r, c] * weight_scale_inv[r / block_rows, c /
// block_columns].
struct Fp8Blocks {
  std::int64_t block_rows = 128;
  std::int64_t block_columns = 128;
};

struct GlmConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_nextn_predict_layers =
      0;                                     // MTP layers, stored after the last layer, not trained
  std::int64_t max_position_embeddings = 0;  // 0: the file does not say
  bool tie_word_embeddings = false;
  double rms_norm_eps = 1e-5;  // of every norm but the latent ones, whose eps is a recipe key
  double initializer_range = 0.02;

  // Multi-head latent attention. qk_head_dim = qk_nope_head_dim + qk_rope_head_dim; `head_dim` of
  // the file is ignored (released configs hold two different things under it).
  std::int64_t num_attention_heads = 0;
  std::int64_t q_lora_rank = 0;
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  double rope_theta = 0;

  // Indexer.
  std::int64_t index_n_heads = 0;
  std::int64_t index_head_dim = 0;
  std::int64_t index_topk = 0;
  bool indexer_rope_interleave = true;     // false: half-split pairs
  std::vector<IndexerType> indexer_types;  // [num_hidden_layers]; the first is full

  // Feed-forward.
  std::vector<MlpType> mlp_layer_types;  // [num_hidden_layers]
  std::int64_t intermediate_size = 0;    // dense layers
  std::int64_t moe_intermediate_size = 0;
  std::int64_t n_routed_experts = 0;
  std::int64_t num_experts_per_tok = 0;
  std::int64_t n_shared_experts =
      0;  // one shared MLP of width n_shared_experts * moe_intermediate_size
  std::int64_t n_group = 1;
  std::int64_t topk_group = 1;
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1;

  std::optional<DType> dtype;  // what the file says; weights may be FP8 all the same
  std::optional<Fp8Blocks> quantization_config;  // present: the weights are block-scaled FP8
  std::vector<std::int64_t> eos_token_id;        // empty: the file names none
  std::optional<std::int64_t> pad_token_id;      // nothing also where the file says -1
  std::optional<std::int64_t> bos_token_id;

  std::int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  std::int64_t shared_intermediate_size() const { return n_shared_experts * moe_intermediate_size; }
  bool is_full(std::int64_t layer) const {
    return indexer_types[static_cast<std::size_t>(layer)] == IndexerType::kFull;
  }
  bool is_sparse(std::int64_t layer) const {
    return mlp_layer_types[static_cast<std::size_t>(layer)] == MlpType::kSparse;
  }
};

// `where` begins every message (the file's path).
GlmConfig parse_glm_config(const io::Value& config, std::string_view where);
GlmConfig read_glm_config(const std::string& config_json);

// The config's word for a dtype ("bfloat16").
std::string config_dtype_name(DType t);

// How `init` fills a tensor: normal(0, initializer_range), ones or zeros.
enum class Initializer : std::uint8_t { kNormal, kOnes, kZeros };

// One tensor of a checkpoint, by the file's name (experts one by one).
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string_view component;  // "attention", "indexer", "experts", ...: groups for reports
  Initializer initializer = Initializer::kNormal;
  bool always_f32 = false;    // the router's correction bias: F32 in memory and in every file
  bool quantizable = false;   // F8_E4M3 with a `_scale_inv` companion in FP8 checkpoints
  bool pass_through = false;  // MTP layers: copied on save, not part of the model in memory

  std::int64_t count() const;
};

// Every tensor of a checkpoint of this architecture: embedding, layers in order, final norm, head
// (absent when tied), then MTP layers.
std::vector<TensorSpec> expected_tensors(const GlmConfig& config);

}  // namespace glmtune::models
