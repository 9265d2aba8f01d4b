#include "models/inspect.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "base/cat.h"
#include "base/error.h"
#include "io/exported_folder.h"
#include "models/checkpoint_files.h"

namespace glmtune::models {
namespace {

namespace fs = std::filesystem;

void count(Inspection::Count& c, const io::TensorInfo& t) {
  ++c.tensors;
  c.elements += t.count();
  c.bytes += t.bytes();
}

Inspection::Count& entry(std::vector<Inspection::Count>& list, std::string_view name) {
  for (Inspection::Count& c : list) {
    if (c.name == name) return c;
  }
  list.push_back({.name = std::string(name)});
  return list.back();
}

void sort_by_bytes(std::vector<Inspection::Count>& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

Inspection inspect_file(const std::string& path) {
  const auto file = io::SafetensorsFile::open(path);
  Inspection out;
  out.path = path;
  out.files = {fs::path(path).filename().string()};
  for (const io::TensorInfo& t : file.tensors()) {
    out.tensors.push_back({t.name, t.shape_string()});
    count(out.total, t);
    count(entry(out.dtypes, name_of(t.dtype)), t);
  }
  sort_by_bytes(out.dtypes);
  return out;
}

// Which component a stored tensor belongs to; scales go by themselves, what is not expected is
// "other".
std::string_view component_of(const std::unordered_map<std::string, std::string_view>& components,
                              const GlmConfig& config, const std::string& name) {
  if (const auto it = components.find(name); it != components.end()) return it->second;
  if (is_mtp_tensor(config, name)) return "mtp";
  return name.ends_with("_scale_inv") ? "fp8_scales" : "other";
}

// Routed experts count by the share that a token visits.
std::int64_t active_parameters(const GlmConfig& c) {
  std::int64_t n = 0;
  for (const TensorSpec& spec : expected_tensors(c)) {
    if (spec.pass_through || spec.component == "embedding") continue;
    n += spec.component == "experts" ? spec.count() * c.num_experts_per_tok / c.n_routed_experts
                                     : spec.count();
  }
  return c.tie_word_embeddings ? n + c.vocab_size * c.hidden_size : n;
}

Inspection inspect_folder(const std::string& folder) {
  const std::string config_path = (fs::path(folder) / "config.json").string();
  if (!fs::exists(config_path)) {
    fail(cat(folder, ": holds no config.json; expected a Hugging Face checkpoint folder or one ",
             "safetensors file", io::exported_folder_hint(folder)));
  }
  Inspection out;
  out.path = folder;
  out.config = read_glm_config(config_path);
  Problems problems;
  const CheckpointFiles files = CheckpointFiles::open(folder, problems);
  compare(files, *out.config, problems);
  if (problems.empty()) check_tied_head(files, *out.config, problems);
  out.problems = problems.list();
  out.files = files.names;
  std::unordered_map<std::string, std::string_view> components;
  for (const TensorSpec& spec : stored_tensors(*out.config, files)) {
    components.emplace(spec.name, spec.component);
  }
  for (const auto& [name, t] : files.tensors) {
    count(out.total, *t.info);
    count(entry(out.dtypes, name_of(t.info->dtype)), *t.info);
    count(entry(out.components, component_of(components, *out.config, name)), *t.info);
    out.quantized = out.quantized || t.info->dtype == DType::kF8E4M3;
    out.has_mtp = out.has_mtp || is_mtp_tensor(*out.config, name);
  }
  sort_by_bytes(out.dtypes);
  sort_by_bytes(out.components);
  out.active_per_token = active_parameters(*out.config);
  return out;
}

// 1234567 -> "1,234,567"
std::string grouped(std::int64_t n) {
  const std::string digits = std::to_string(n);
  std::string s;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) s.push_back(',');
    s.push_back(digits[i]);
  }
  return s;
}

std::string padded(std::string s, std::size_t width, bool left) {
  if (s.size() >= width) return s;
  return left ? s + std::string(width - s.size(), ' ') : std::string(width - s.size(), ' ') + s;
}

std::string row(std::string_view name, std::string tensors, std::string elements,
                std::string bytes) {
  return cat(padded(std::string(name), 16, true), padded(std::move(tensors), 9, false), "  ",
             padded(std::move(elements), 17, false), "  ", padded(std::move(bytes), 11, false),
             "\n");
}

std::string table(std::string_view title, const std::vector<Inspection::Count>& counts,
                  const Inspection::Count& total) {
  std::string s = row(title, "tensors", "elements", "bytes");
  for (const Inspection::Count& c : counts) {
    s += row(c.name, grouped(c.tensors), grouped(c.elements), io::human_bytes(c.bytes));
  }
  return s + row("total", grouped(total.tensors), grouped(total.elements),
                 io::human_bytes(total.bytes));
}

std::string architecture(const Inspection& in) {
  const GlmConfig& c = *in.config;
  const auto full = std::count(c.indexer_types.begin(), c.indexer_types.end(), IndexerType::kFull);
  const auto sparse =
      std::count(c.mlp_layer_types.begin(), c.mlp_layer_types.end(), MlpType::kSparse);
  std::string s = cat("family      GLM-5 (glm_moe_dsa, GlmMoeDsaForCausalLM)\n", "layers      ",
                      c.num_hidden_layers, ": ", c.num_hidden_layers - sparse, " dense, ", sparse,
                      " MoE; ", full, " with an indexer, ", c.num_hidden_layers - full,
                      " sharing an earlier selection (IndexShare)\n");
  s += cat("experts     ", c.n_routed_experts, " of width ", c.moe_intermediate_size, ", top ",
           c.num_experts_per_tok, ", ", c.n_shared_experts, " shared\n");
  s += cat("widths      hidden ", c.hidden_size, ", vocabulary ", c.vocab_size, ", heads ",
           c.num_attention_heads, ", latents ", c.q_lora_rank, " and ", c.kv_lora_rank,
           ", index top-k ", c.index_topk, c.tie_word_embeddings ? ", tied head" : "", "\n");
  s += cat("MTP         ", c.num_nextn_predict_layers,
           c.num_nextn_predict_layers == 1 ? " layer by the config" : " layers by the config",
           in.has_mtp                       ? ", stored"
           : c.num_nextn_predict_layers > 0 ? ", none stored"
                                            : "",
           "\n");
  s += cat("active      ", grouped(in.active_per_token),
           " parameters a token (head included, embedding not)\n");
  if (in.quantized) s += "quantised   block-scaled FP8 (E4M3)\n";
  return s;
}

io::Value to_value(const std::vector<Inspection::Count>& counts) {
  io::Value::Object out;
  for (const Inspection::Count& c : counts) {
    out.emplace_back(c.name, io::Value::Object{{"tensors", c.tensors},
                                               {"elements", c.elements},
                                               {"bytes", static_cast<std::int64_t>(c.bytes)}});
  }
  return out;
}

}  // namespace

Inspection inspect(const std::string& path) {
  if (fs::is_directory(path)) return inspect_folder(path);
  if (!fs::exists(path)) {
    fail(cat(path, ": does not exist; expected a checkpoint folder or a safetensors file"));
  }
  return inspect_file(path);
}

std::string to_text(const Inspection& in) {
  std::string s = cat(in.path, ": ", in.files.size(), in.files.size() == 1 ? " file, " : " files, ",
                      io::human_bytes(in.total.bytes), "\n");
  if (in.config) s += cat(architecture(in), "\n", table("component", in.components, in.total));
  s += cat("\n", table("dtype", in.dtypes, in.total));
  if (!in.tensors.empty()) s += "\n";
  for (const Inspection::Listed& t : in.tensors) s += cat(t.name, "  ", t.shape, "\n");
  if (!in.config) return s;
  if (in.problems.empty())
    return s + "\ncomplete: every tensor the config asks for, nothing else\n";
  s += cat("\n", in.problems.size(), in.problems.size() == 1 ? " problem:\n" : " problems:\n");
  constexpr std::size_t kShown = 50;
  for (std::size_t i = 0; i < std::min(kShown, in.problems.size()); ++i) {
    s += cat("  ", in.problems[i], "\n");
  }
  if (in.problems.size() > kShown) s += cat("  and ", in.problems.size() - kShown, " more\n");
  return s;
}

io::Value to_value(const Inspection& in) {
  io::Value::Array files(in.files.begin(), in.files.end());
  io::Value::Array problems(in.problems.begin(), in.problems.end());
  io::Value out = io::Value::Object{{"path", in.path},
                                    {"files", std::move(files)},
                                    {"tensors", in.total.tensors},
                                    {"elements", in.total.elements},
                                    {"bytes", static_cast<std::int64_t>(in.total.bytes)},
                                    {"dtypes", to_value(in.dtypes)}};
  if (!in.config) {
    io::Value::Object listed;
    for (const Inspection::Listed& t : in.tensors) listed.emplace_back(t.name, t.shape);
    out.set("contents", std::move(listed));
    return out;
  }
  out.set("model_type", "glm_moe_dsa");
  out.set("components", to_value(in.components));
  out.set("active_per_token", in.active_per_token);
  out.set("quantized", in.quantized);
  out.set("mtp", in.has_mtp);
  out.set("ok", in.problems.empty());
  out.set("problems", std::move(problems));
  return out;
}

}  // namespace glmtune::models
