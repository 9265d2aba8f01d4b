// What a checkpoint of this configuration must hold against what its files hold.
#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "base/cat.h"
#include "models/checkpoint_files.h"
#include "models/stored_reader.h"

namespace glmtune::models {
namespace {

constexpr std::string_view kScaleSuffix = "_scale_inv";
constexpr std::string_view kExperts = ".mlp.experts.";

bool is_real(DType t) {
  return t == DType::kF64 || t == DType::kF32 || t == DType::kBF16 || t == DType::kF16;
}

// N of "model.layers.N.", -1 for other names.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  std::int64_t layer = -1;
  const auto [end, ec] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (ec != std::errc() || end == name.data() + name.size() || *end != '.') return -1;
  return layer;
}

std::int64_t blocks(std::int64_t size, std::int64_t block) {
  return (size + block - 1) / block;
}

void compare_scale(const CheckpointFiles& files, const GlmConfig& config, const TensorSpec& spec,
                   Problems& problems) {
  if (!config.quantization_config) {
    problems.add(cat(spec.name, ": is FP8, but config.json has no quantization_config"));
    return;
  }
  const std::string name = spec.name + std::string(kScaleSuffix);
  const StoredTensor* scale = files.find(name);
  if (scale == nullptr) {
    problems.add(cat(name, ": is missing (the scales of an FP8 tensor)"));
    return;
  }
  const std::vector<std::int64_t> expected = {
      blocks(spec.shape[0], config.quantization_config->block_rows),
      blocks(spec.shape[1], config.quantization_config->block_columns)};
  if (scale->info->shape != expected || !is_real(scale->info->dtype)) {
    problems.add(cat(name, ": expected ", io::shape_text(expected), " F32, found ",
                     scale->info->shape_string()));
  }
}

std::string why_unexpected(const GlmConfig& config, std::string_view name) {
  const std::int64_t layer = layer_of(name);
  if (layer >= config.num_hidden_layers) {
    return cat(" (the config has ", config.num_hidden_layers,
               " layers and num_nextn_predict_layers ", config.num_nextn_predict_layers, ")");
  }
  if (layer >= 0 && name.find(".indexer.") != std::string_view::npos && !config.is_full(layer)) {
    return cat(" (layer ", layer, " shares the selection of an earlier layer and has no indexer)");
  }
  return "";
}

}  // namespace

bool is_mtp_tensor(const GlmConfig& config, std::string_view name) {
  const std::int64_t layer = layer_of(name);
  return layer >= config.num_hidden_layers &&
         layer < config.num_hidden_layers + config.num_nextn_predict_layers;
}

std::vector<TensorSpec> stored_tensors(const GlmConfig& config, const CheckpointFiles& files) {
  const bool any_mtp = std::any_of(files.tensors.begin(), files.tensors.end(),
                                   [&](const auto& t) { return is_mtp_tensor(config, t.first); });
  std::vector<TensorSpec> out;
  std::string stacked_for;  // the layer whose stacked tensors are already in the list
  for (TensorSpec& spec : expected_tensors(config)) {
    if (spec.pass_through && !any_mtp) continue;
    const std::size_t at = spec.name.find(kExperts);
    if (at == std::string::npos) {
      out.push_back(std::move(spec));
      continue;
    }
    const std::string prefix = spec.name.substr(0, at + kExperts.size());
    if (prefix == stacked_for) continue;
    if (files.find(prefix + "gate_up_proj") == nullptr) {
      out.push_back(std::move(spec));
      continue;
    }
    stacked_for = prefix;
    spec.quantizable = false;
    const std::int64_t experts = config.n_routed_experts;
    spec.name = prefix + "gate_up_proj";
    spec.shape = {experts, 2 * config.moe_intermediate_size, config.hidden_size};
    out.push_back(spec);
    spec.name = prefix + "down_proj";
    spec.shape = {experts, config.hidden_size, config.moe_intermediate_size};
    out.push_back(spec);
  }
  return out;
}

void compare(const CheckpointFiles& files, const GlmConfig& config, Problems& problems) {
  std::unordered_set<std::string> known;
  for (const TensorSpec& spec : stored_tensors(config, files)) {
    known.insert(spec.name);
    const StoredTensor* found = files.find(spec.name);
    if (found == nullptr) {
      problems.add(cat(spec.name, ": is missing, expected ", io::shape_text(spec.shape)));
      continue;
    }
    const io::TensorInfo& info = *found->info;
    if (info.shape != spec.shape) {
      problems.add(cat(spec.name, ": expected shape ", io::shape_text(spec.shape), ", found ",
                       info.shape_string()));
    } else if (info.dtype == DType::kF8E4M3 && spec.quantizable) {
      compare_scale(files, config, spec, problems);
      known.insert(spec.name + std::string(kScaleSuffix));
    } else if (!is_real(info.dtype)) {
      problems.add(cat(spec.name, ": has dtype ", name_of(info.dtype), ", expected BF16, F32, F16",
                       spec.quantizable ? ", F8_E4M3" : "", " or F64"));
    }
  }
  // Some files hold the head of a tied model all the same.
  if (config.tie_word_embeddings) known.insert("lm_head.weight");
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : files.tensors) {
    if (!known.contains(name) && !is_mtp_tensor(config, name)) unexpected.push_back(name);
  }
  std::sort(unexpected.begin(), unexpected.end());
  for (const std::string& name : unexpected) {
    problems.add(cat(name, ": is not expected", why_unexpected(config, name)));
  }
}

void check_tied_head(const CheckpointFiles& files, const GlmConfig& config, Problems& problems) {
  const StoredTensor* head = files.find("lm_head.weight");
  if (!config.tie_word_embeddings || head == nullptr) return;
  const StoredTensor& embedding = *files.find("model.embed_tokens.weight");
  if (head->info->shape != embedding.info->shape) {
    problems.add(cat("lm_head.weight: expected the embedding's shape (tie_word_embeddings), found ",
                     head->info->shape_string()));
    return;
  }
  const std::int64_t count = head->info->count();
  std::vector<double> a(static_cast<std::size_t>(std::min(count, kStreamChunk)));
  std::vector<double> b(a.size());
  for (std::int64_t first = 0; first < count; first += kStreamChunk) {
    const std::int64_t n = std::min(kStreamChunk, count - first);
    head->file->read_elements(*head->info, first, n, a.data(), DType::kF64);
    embedding.file->read_elements(*embedding.info, first, n, b.data(), DType::kF64);
    if (!std::equal(a.begin(), a.begin() + n, b.begin())) {
      problems.add(
          "lm_head.weight: differs from model.embed_tokens.weight although config.json says "
          "tie_word_embeddings; set it to false, or remove lm_head.weight");
      return;
    }
  }
}

}  // namespace glmtune::models
