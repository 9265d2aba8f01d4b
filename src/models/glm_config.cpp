#include "models/glm_config.h"

#include <algorithm>
#include <cmath>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::models {
namespace {

using io::Value;

constexpr std::int64_t kMaxSize = std::int64_t{1}
                                  << 20;  // of a width: keeps products of three in range
constexpr std::int64_t kMaxCount = std::int64_t{1}
                                   << 31;  // of tokens: vocabulary, positions, top-k
constexpr double kMostInitializerRange = 100;

// Typed access to the members of one JSON object; messages read "FILE: key `a.b`: expected ...".
class Reader {
 public:
  Reader(const Value& object, std::string_view where, std::string prefix = "")
      : object_(object), where_(where), prefix_(std::move(prefix)) {}

  [[noreturn]] void error(std::string_view key, const std::string& what) const {
    fail(cat(where_, ": key `", prefix_, key, "`: ", what));
  }

  // Null counts as absent: published configs write null for "not used".
  const Value* find(std::string_view key) const {
    const Value* v = object_.find(key);
    return v != nullptr && v->is_null() ? nullptr : v;
  }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  std::int64_t size(std::string_view key, std::int64_t most = kMaxSize) const {
    return size_of_value(key, require(key), 1, most);
  }
  std::int64_t size_or(std::string_view key, std::int64_t fallback, std::int64_t least = 1,
                       std::int64_t most = kMaxSize) const {
    const Value* v = find(key);
    return v == nullptr ? fallback : size_of_value(key, *v, least, most);
  }

  bool flag_or(std::string_view key, bool fallback) const {
    const Value* v = find(key);
    if (v == nullptr) return fallback;
    if (!v->is_bool()) error(key, cat("expected true or false, found ", shown(*v)));
    return v->as_bool();
  }

  double number(std::string_view key) const { return number_of_value(key, require(key)); }
  double number_or(std::string_view key, double fallback) const {
    const Value* v = find(key);
    return v == nullptr ? fallback : number_of_value(key, *v);
  }
  double positive(std::string_view key) const {
    const double d = number(key);
    if (!(d > 0)) error(key, cat("expected a number above 0, found ", d));
    return d;
  }

  std::string text_or(std::string_view key, std::string_view fallback) const {
    const Value* v = find(key);
    if (v == nullptr) return std::string(fallback);
    if (!v->is_string()) error(key, cat("expected a string, found ", shown(*v)));
    return v->as_string();
  }

  // The key may be absent; when present it must have this value, because nothing else is built.
  void only_text(std::string_view key, std::string_view value) const {
    const std::string found = text_or(key, value);
    if (found != value) {
      error(key, cat("\"", found, "\" is not supported; this architecture has \"", value, "\""));
    }
  }
  void only_flag(std::string_view key, bool value, std::string_view reason) const {
    if (flag_or(key, value) != value) {
      error(key, cat(value ? "false" : "true", " is not supported: ", reason));
    }
  }

  const Value& require(std::string_view key) const {
    const Value* v = find(key);
    if (v == nullptr) error(key, "is missing");
    return *v;
  }

  static std::string shown(const Value& v) {
    return v.is_array() || v.is_object() ? cat("an ", v.kind_name()) : io::to_json(v);
  }

 private:
  std::int64_t size_of_value(std::string_view key, const Value& v, std::int64_t least,
                             std::int64_t most) const {
    if (!v.is_int() || v.as_int() < least || v.as_int() > most) {
      error(key, cat("expected an integer from ", least, " to ", most, ", found ", shown(v)));
    }
    return v.as_int();
  }
  double number_of_value(std::string_view key, const Value& v) const {
    if (!v.is_number()) error(key, cat("expected a number, found ", shown(v)));
    return v.as_double();
  }

  const Value& object_;
  std::string_view where_;
  std::string prefix_;
};

void check_architecture(const Reader& r, const Value& config, std::string_view where) {
  if (!config.is_object()) {
    fail(cat(where, ": expected a JSON object, found ", config.kind_name()));
  }
  const std::string type = r.text_or("model_type", "");
  std::string names;
  if (const Value* list = r.find("architectures"); list != nullptr) {
    if (!list->is_array())
      r.error("architectures", cat("expected a list, found ", Reader::shown(*list)));
    for (const Value& v : list->as_array()) {
      if (v.is_string()) names += (names.empty() ? "" : ", ") + v.as_string();
    }
  }
  if (type == "glm_moe_dsa") {
    if (!names.empty() && names.find("GlmMoeDsaForCausalLM") == std::string::npos) {
      r.error("architectures", cat("expected GlmMoeDsaForCausalLM, found ", names));
    }
    return;
  }
  std::string message =
      cat(where, ": model_type \"", type, "\"", names.empty() ? "" : cat(" (", names, ")"),
          " is not supported; ", "supported: glm_moe_dsa (GLM-5, GLM-5.1, GLM-5.2, GLM-5.3).");
  if (type.empty()) message = cat(where, ": key `model_type` is missing; expected glm_moe_dsa");
  if (type.starts_with("glm5_next") || type.find("flash") != std::string::npos) {
    message +=
        " GLM-5.3-Flash is another architecture (a linear-attention hybrid of its own), not a small"
        " GLM-5.3.";
  }
  fail(message);
}

double rope_theta(const Reader& r, const Value& config, std::string_view where) {
  double theta = 0;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Value* v = r.find(key);
    if (v == nullptr) continue;
    if (!v->is_object()) r.error(key, cat("expected an object, found ", v->kind_name()));
    const Reader inner(*v, where, cat(key, "."));
    for (const char* type_key : {"rope_type", "type"}) {
      const std::string type = inner.text_or(type_key, "default");
      if (type != "default") {
        inner.error(type_key, cat("\"", type, "\" is not supported; the GLM-5 family uses plain ",
                                  "RoPE (\"default\"), without YaRN or other scaling"));
      }
    }
    if (inner.number_or("partial_rotary_factor", 1.0) != 1.0) {
      inner.error("partial_rotary_factor",
                  "is not supported; qk_rope_head_dim gives the rotated part");
    }
    if (inner.has("rope_theta")) theta = inner.positive("rope_theta");
  }
  if (theta > 0) {
    const Value* outer = r.find("rope_theta");
    if (outer != nullptr && r.positive("rope_theta") != theta)
      r.error("rope_theta", cat("found ", Reader::shown(*outer), ", but rope_parameters has ",
                                theta, "; remove the wrong one"));
    return theta;
  }
  if (config.find("rope_theta") == nullptr) {
    r.error("rope_parameters.rope_theta", "is missing (and so is `rope_theta`)");
  }
  return r.positive("rope_theta");
}

// A list of one word per layer.
std::vector<std::string> words(const Reader& r, std::string_view key, std::int64_t layers) {
  const Value& v = r.require(key);
  if (!v.is_array()) r.error(key, cat("expected a list, found ", Reader::shown(v)));
  std::vector<std::string> out;
  for (const Value& item : v.as_array()) {
    if (!item.is_string()) r.error(key, cat("expected strings, found ", Reader::shown(item)));
    out.push_back(item.as_string());
  }
  if (static_cast<std::int64_t>(out.size()) != layers) {
    r.error(key, cat("expected ", layers, " entries (num_hidden_layers), found ", out.size()));
  }
  return out;
}

IndexerType indexer_type(const Reader& r, std::string_view key, std::string_view word) {
  if (word == "full" || word == "F") return IndexerType::kFull;
  if (word == "shared" || word == "S") return IndexerType::kShared;
  r.error(key, cat("expected \"full\" or \"shared\" (\"F\" or \"S\"), found \"", word, "\""));
}

std::vector<IndexerType> indexer_types(const Reader& r, std::int64_t layers) {
  std::vector<IndexerType> out;
  std::string_view key = "indexer_types";
  if (r.has(key)) {
    for (const std::string& w : words(r, key, layers)) out.push_back(indexer_type(r, key, w));
  } else if (r.has("index_topk_pattern")) {
    key = "index_topk_pattern";
    const Value& v = r.require(key);
    if (v.is_string()) {
      const std::string& pattern = v.as_string();
      if (static_cast<std::int64_t>(pattern.size()) != layers) {
        r.error(key,
                cat("expected ", layers, " letters (num_hidden_layers), found ", pattern.size()));
      }
      for (const char c : pattern) out.push_back(indexer_type(r, key, std::string_view(&c, 1)));
    } else {
      for (const std::string& w : words(r, key, layers)) out.push_back(indexer_type(r, key, w));
    }
  } else {
    key = "index_skip_topk_offset";
    // As transformers reads it, what is below 1 counts as 1.
    const std::int64_t freq = std::max<std::int64_t>(r.size_or("index_topk_freq", 1, -kMaxSize), 1);
    const std::int64_t offset = r.size_or("index_skip_topk_offset", 2, 0);
    for (std::int64_t i = 0; i < layers; ++i) {
      const bool full = std::max<std::int64_t>(i - offset + 1, 0) % freq == 0;
      out.push_back(full ? IndexerType::kFull : IndexerType::kShared);
    }
  }
  if (out.front() != IndexerType::kFull) {
    r.error(key, "layer 0 must be full: there is no earlier layer whose selection it could share");
  }
  return out;
}

std::vector<MlpType> mlp_layer_types(const Reader& r, std::int64_t layers) {
  std::vector<MlpType> out;
  if (r.has("mlp_layer_types")) {
    for (const std::string& w : words(r, "mlp_layer_types", layers)) {
      if (w != "dense" && w != "sparse") {
        r.error("mlp_layer_types", cat("expected \"dense\" or \"sparse\", found \"", w, "\""));
      }
      out.push_back(w == "dense" ? MlpType::kDense : MlpType::kSparse);
    }
    return out;
  }
  if (!r.has("first_k_dense_replace")) {
    r.error("first_k_dense_replace", "is missing (and so is `mlp_layer_types`)");
  }
  const std::int64_t dense = r.size_or("first_k_dense_replace", 0, 0);
  if (const std::int64_t freq = r.size_or("moe_layer_freq", 1); freq != 1) {
    r.error("moe_layer_freq",
            cat("expected 1, found ", freq, ": in this architecture every layer from ",
                "first_k_dense_replace on has experts; for another pattern give mlp_layer_types"));
  }
  for (std::int64_t i = 0; i < layers; ++i) {
    out.push_back(i >= dense ? MlpType::kSparse : MlpType::kDense);
  }
  return out;
}

// The number of routed experts has three names; of two that differ one is wrong.
std::int64_t routed_experts(const Reader& r) {
  constexpr std::int64_t kMost = 1 << 16;
  std::string_view first;
  std::int64_t count = 0;
  for (const std::string_view key : {"n_routed_experts", "num_experts", "num_local_experts"}) {
    if (!r.has(key)) continue;
    const std::int64_t found = r.size(key, kMost);
    if (!first.empty() && found != count) {
      r.error(key, cat("found ", found, ", but ", first, " is ", count,
                       ", and they are one number; remove the wrong one"));
    }
    if (first.empty()) first = key;
    count = found;
  }
  return first.empty() ? r.size("n_routed_experts", kMost) : count;
}

std::optional<DType> stored_dtype(const Reader& r) {
  const std::string_view key = r.has("dtype") ? "dtype" : "torch_dtype";
  std::string name = r.text_or(key, "");
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name.empty() || name == "auto") return std::nullopt;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  if (name == "float32") return DType::kF32;
  if (name == "float64") return DType::kF64;
  r.error(key,
          cat("\"", name, "\" is not supported; expected bfloat16, float16, float32 or float64"));
}

std::optional<Fp8Blocks> quantization(const Reader& r, std::string_view where) {
  const Value* v = r.find("quantization_config");
  if (v == nullptr) return std::nullopt;
  if (!v->is_object())
    r.error("quantization_config", cat("expected an object, found ", v->kind_name()));
  const Reader q(*v, where, "quantization_config.");
  const std::string method = q.text_or("quant_method", "");
  if (method != "fp8") {
    q.error("quant_method",
            cat("\"", method, "\" is not supported; expected \"fp8\" (block-scaled E4M3), or an ",
                "unquantised checkpoint"));
  }
  q.only_text("fmt", "e4m3");
  const Value& blocks = q.require("weight_block_size");
  if (!blocks.is_array() || blocks.size() != 2 || !blocks.as_array()[0].is_int() ||
      !blocks.as_array()[1].is_int() || blocks.as_array()[0].as_int() < 1 ||
      blocks.as_array()[1].as_int() < 1 || blocks.as_array()[0].as_int() > kMaxSize ||
      blocks.as_array()[1].as_int() > kMaxSize) {
    q.error("weight_block_size",
            cat("expected two integers from 1 to ", kMaxSize, ", as in [128, 128]"));
  }
  return Fp8Blocks{blocks.as_array()[0].as_int(), blocks.as_array()[1].as_int()};
}

std::optional<std::int64_t> token_id(const Reader& r, std::string_view key, std::int64_t vocab) {
  const Value* v = r.find(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_int() || v->as_int() < 0 || v->as_int() >= vocab) {
    r.error(key,
            cat("expected a token id below vocab_size ", vocab, ", found ", Reader::shown(*v)));
  }
  return v->as_int();
}

// Published configs write -1 for "none". Nothing here needs the id: padding is known by lengths.
std::optional<std::int64_t> pad_id(const Reader& r, std::int64_t vocab) {
  const Value* v = r.find("pad_token_id");
  if (v != nullptr && v->is_int() && v->as_int() < 0) return std::nullopt;
  return token_id(r, "pad_token_id", vocab);
}

std::vector<std::int64_t> eos_ids(const Reader& r, std::int64_t vocab) {
  const Value* v = r.find("eos_token_id");
  if (v == nullptr) return {};
  if (!v->is_array()) return {*token_id(r, "eos_token_id", vocab)};
  std::vector<std::int64_t> out;
  for (const Value& item : v->as_array()) {
    if (!item.is_int() || item.as_int() < 0 || item.as_int() >= vocab) {
      r.error("eos_token_id",
              cat("expected token ids below vocab_size ", vocab, ", found ", Reader::shown(item)));
    }
    out.push_back(item.as_int());
  }
  return out;
}

// What no kernel is built for is refused here, so that nothing is computed differently in silence.
void check_fixed_choices(const Reader& r) {
  r.only_flag("attention_bias", false, "the projections of this architecture have no biases");
  r.only_flag("mlp_bias", false, "the projections of this architecture have no biases");
  r.only_flag("rope_interleave", true, "the attention of this architecture rotates adjacent pairs");
  r.only_text("hidden_act", "silu");
  r.only_text("scoring_func", "sigmoid");
  r.only_text("topk_method", "noaux_tc");
  if (r.number_or("attention_dropout", 0) != 0) {
    r.error("attention_dropout", "is not supported; expected 0.0");
  }
}

void check_layer_types(const Reader& r, std::int64_t layers) {
  if (!r.has("layer_types")) return;
  for (const std::string& w : words(r, "layer_types", layers)) {
    if (w != "deepseek_sparse_attention") {
      r.error("layer_types",
              cat("expected \"deepseek_sparse_attention\" in every layer, found \"", w, "\""));
    }
  }
}

void check_consistency(const GlmConfig& c, const Reader& r) {
  const std::int64_t kv_heads = r.size_or("num_key_value_heads", c.num_attention_heads);
  if (kv_heads != c.num_attention_heads) {
    r.error("num_key_value_heads",
            cat("expected ", c.num_attention_heads, " (num_attention_heads), found ", kv_heads));
  }
  if (const std::int64_t d = r.size_or("qk_head_dim", c.qk_head_dim()); d != c.qk_head_dim()) {
    r.error("qk_head_dim",
            cat("expected ", c.qk_head_dim(), " (qk_nope_head_dim + qk_rope_head_dim), found ", d));
  }
  if (c.qk_rope_head_dim % 2 != 0) {
    r.error("qk_rope_head_dim", cat("expected an even number, found ", c.qk_rope_head_dim));
  }
  if (c.index_head_dim < c.qk_rope_head_dim) {
    r.error("index_head_dim", cat("expected at least qk_rope_head_dim (", c.qk_rope_head_dim,
                                  "), found ", c.index_head_dim));
  }
  if (std::find(c.mlp_layer_types.begin(), c.mlp_layer_types.end(), MlpType::kSparse) ==
      c.mlp_layer_types.end()) {
    return;
  }
  if (c.num_experts_per_tok > c.n_routed_experts) {
    r.error("num_experts_per_tok", cat("expected at most n_routed_experts (", c.n_routed_experts,
                                       "), found ", c.num_experts_per_tok));
  }
  if (c.n_routed_experts % c.n_group != 0) {
    r.error("n_group", cat("expected a divisor of n_routed_experts (", c.n_routed_experts,
                           "), found ", c.n_group));
  }
  if (c.topk_group > c.n_group) {
    r.error("topk_group", cat("expected at most n_group (", c.n_group, "), found ", c.topk_group));
  }
  if (c.n_group > 1) {
    const std::int64_t per_group = c.n_routed_experts / c.n_group;
    if (per_group < 2) r.error("n_group", "groups need two experts each at least");
    if (c.num_experts_per_tok > c.topk_group * per_group) {
      r.error("num_experts_per_tok",
              cat("expected at most the experts of topk_group groups (", c.topk_group * per_group,
                  "), found ", c.num_experts_per_tok));
    }
  }
}

}  // namespace

GlmConfig parse_glm_config(const Value& config, std::string_view where) {
  if (!config.is_object()) fail(cat(where, ": expected a JSON object, found ", config.kind_name()));
  const Reader r(config, where);
  check_architecture(r, config, where);
  check_fixed_choices(r);

  GlmConfig c;
  c.vocab_size = r.size("vocab_size", kMaxCount);
  c.hidden_size = r.size("hidden_size");
  c.num_hidden_layers = r.size("num_hidden_layers", 4096);
  c.num_nextn_predict_layers = r.size_or("num_nextn_predict_layers", 0, 0, 64);
  c.max_position_embeddings = r.size_or("max_position_embeddings", 0, 1, kMaxCount);
  c.tie_word_embeddings = r.flag_or("tie_word_embeddings", false);
  c.rms_norm_eps = r.positive("rms_norm_eps");
  c.initializer_range = r.number_or("initializer_range", 0.02);
  if (!(c.initializer_range >= 0 && c.initializer_range <= kMostInitializerRange))
    r.error("initializer_range", cat("expected a number from 0 to ", kMostInitializerRange,
                                     ", found ", c.initializer_range));

  c.num_attention_heads = r.size("num_attention_heads");
  c.q_lora_rank = r.size("q_lora_rank");
  c.kv_lora_rank = r.size("kv_lora_rank");
  c.qk_nope_head_dim = r.size("qk_nope_head_dim");
  c.qk_rope_head_dim = r.size("qk_rope_head_dim");
  c.v_head_dim = r.size("v_head_dim");
  c.rope_theta = rope_theta(r, config, where);

  c.index_n_heads = r.size("index_n_heads");
  c.index_head_dim = r.size("index_head_dim");
  c.index_topk = r.size("index_topk", kMaxCount);
  c.indexer_rope_interleave = r.flag_or("indexer_rope_interleave", true);
  c.indexer_types = indexer_types(r, c.num_hidden_layers);

  check_layer_types(r, c.num_hidden_layers);
  c.mlp_layer_types = mlp_layer_types(r, c.num_hidden_layers);
  c.intermediate_size = r.size("intermediate_size");
  c.moe_intermediate_size = r.size("moe_intermediate_size");
  c.n_routed_experts = routed_experts(r);
  c.num_experts_per_tok = r.size("num_experts_per_tok");
  c.n_shared_experts = r.size("n_shared_experts");
  c.n_group = r.size_or("n_group", 1);
  c.topk_group = r.size_or("topk_group", 1);
  c.norm_topk_prob = r.flag_or("norm_topk_prob", true);
  c.routed_scaling_factor = r.positive("routed_scaling_factor");

  c.dtype = stored_dtype(r);
  c.quantization_config = quantization(r, where);
  c.eos_token_id = eos_ids(r, c.vocab_size);
  c.pad_token_id = pad_id(r, c.vocab_size);
  c.bos_token_id = token_id(r, "bos_token_id", c.vocab_size);
  check_consistency(c, r);
  return c;
}

std::string config_dtype_name(DType t) {
  switch (t) {
    case DType::kF64:
      return "float64";
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    default:
      fail(cat("config.json has no word for the dtype ", name_of(t)));
  }
}

GlmConfig read_glm_config(const std::string& config_json) {
  return parse_glm_config(io::read_json_file(config_json), config_json);
}

}  // namespace glmtune::models
