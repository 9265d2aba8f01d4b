#include "models/hf_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_set>

#include "base/cat.h"
#include "base/error.h"
#include "io/exported_folder.h"
#include "models/stored_reader.h"

namespace glmtune::models {
namespace {

namespace fs = std::filesystem;

DType most_common_dtype(const CheckpointFiles& files, const GlmConfig& config) {
  std::map<DType, std::int64_t> counts;
  for (const TensorSpec& spec : stored_tensors(config, files)) {
    if (spec.pass_through || spec.always_f32) continue;
    counts[files.find(spec.name)->info->dtype] += spec.count();
  }
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  if (most->first == DType::kF8E4M3) return DType::kBF16;
  if (most->first == DType::kF16) return DType::kF32;
  return most->first;
}

}  // namespace

std::vector<StoredPart> stored_parts(const CheckpointFiles& files, const nn::Parameter& parameter) {
  const std::string& name = parameter.name;
  const Tensor& value = parameter.value;
  const bool gate_up = name.ends_with(".mlp.experts.gate_up_proj");
  const bool down = name.ends_with(".mlp.experts.down_proj");
  if ((!gate_up && !down) || files.find(name) != nullptr) return {{name, value}};
  if (value.rank != 3) fail(cat(name, ": expected three dimensions, found ", value.shape_string()));
  const std::string prefix = name.substr(0, name.rfind('.') + 1);
  std::vector<StoredPart> parts;
  for (std::int64_t e = 0; e < value.size(0); ++e) {
    const Tensor expert = value.select(0, e);
    if (down) {
      parts.push_back({cat(prefix, e, ".down_proj.weight"), expert});
      continue;
    }
    const std::int64_t width = expert.size(0) / 2;
    parts.push_back({cat(prefix, e, ".gate_proj.weight"), expert.rows(0, width)});
    parts.push_back({cat(prefix, e, ".up_proj.weight"), expert.rows(width, expert.size(0))});
  }
  return parts;
}

HfCheckpoint HfCheckpoint::open(const std::string& folder) {
  if (!fs::is_directory(folder)) {
    fail(cat(folder, ": is not a folder; expected a Hugging Face checkpoint (config.json and ",
             "model.safetensors, or shards with their index)"));
  }
  const std::string config_path = (fs::path(folder) / "config.json").string();
  if (!fs::exists(config_path))
    fail(cat(folder, ": holds no config.json", io::exported_folder_hint(folder)));
  HfCheckpoint c;
  c.config_text_ = io::read_file(config_path);
  c.config_ = parse_glm_config(io::parse_json(c.config_text_, config_path), config_path);
  Problems problems;
  auto files = std::make_shared<CheckpointFiles>(CheckpointFiles::open(folder, problems));
  // With files missing, the list of their tensors would only bury the cause.
  if (problems.empty()) compare(*files, c.config_, problems);
  if (problems.empty()) check_tied_head(*files, c.config_, problems);
  problems.raise(cat(folder, ": the checkpoint is not complete and consistent"));
  for (const auto& [name, tensor] : files->tensors) {
    c.has_mtp_ = c.has_mtp_ || is_mtp_tensor(c.config_, name);
    c.quantized_ = c.quantized_ || tensor.info->dtype == DType::kF8E4M3;
  }
  c.own_dtype_ = most_common_dtype(*files, c.config_);
  c.files_ = std::move(files);
  return c;
}

void HfCheckpoint::keep_companions() {
  companions_ = std::make_shared<const Companions>(Companions::read(folder()));
}

void HfCheckpoint::load_one(nn::Parameter& parameter, void* stream,
                            const std::function<void(std::uint64_t)>& loaded) const {
  const DType dtype = parameter.value.dtype;
  if (dtype != DType::kF64 && dtype != DType::kF32 && dtype != DType::kBF16) {
    fail(cat(parameter.name, ": parameters are F64, F32 or BF16, not ", name_of(dtype)));
  }
  for (const StoredPart& p : stored_parts(*files_, parameter)) {
    const StoredTensor* stored = files_->find(p.name);
    if (stored == nullptr && config_.tie_word_embeddings && p.name == "lm_head.weight") {
      stored = files_->find("model.embed_tokens.weight");
    }
    if (stored == nullptr) {
      fail(cat(folder(), ": there is no tensor ", p.name, " for parameter ", parameter.name));
    }
    const std::vector<std::int64_t> shape(p.part.sizes.begin(), p.part.sizes.begin() + p.part.rank);
    if (shape != stored->info->shape) {
      fail(cat(folder(), ": ", p.name, ": the parameter needs ", p.part.shape_string(),
               ", the checkpoint holds ", stored->info->shape_string()));
    }
    if (p.part.device == Device::kMeta) continue;
    StoredReader(*files_, config_, *stored).read_all(p.part, stream);
    if (loaded) loaded(p.part.bytes());
  }
}

void HfCheckpoint::load(std::span<nn::Parameter* const> parameters, void* stream,
                        const ByteCount& progress) const {
  std::unordered_set<std::string> taken;
  for (const nn::Parameter* p : parameters) {
    for (StoredPart& part : stored_parts(*files_, *p)) {
      if (!taken.insert(part.name).second) fail(cat(part.name, ": is loaded by two parameters"));
    }
  }
  Problems problems;
  for (const TensorSpec& spec : stored_tensors(config_, *files_)) {
    if (!spec.pass_through && !taken.contains(spec.name)) {
      problems.add(cat(spec.name, ": no parameter takes it"));
    }
  }
  problems.raise(cat(folder(), ": the model does not take the whole checkpoint"));
  std::uint64_t done = 0, total = 0;
  for (const nn::Parameter* p : parameters) total += p->value.bytes();
  const auto loaded = [&](std::uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  for (nn::Parameter* p : parameters) load_one(*p, stream, loaded);
}

}  // namespace glmtune::models
