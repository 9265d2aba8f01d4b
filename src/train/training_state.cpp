#include "train/training_state.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <unordered_set>

#include "base/cat.h"
#include "base/fnv.h"
#include "base/format.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace glmtune::train {
namespace {

constexpr std::string_view kRouterBias = "e_score_correction_bias";
constexpr const char* kTensorsName = "state.safetensors";
constexpr const char* kFormat = "glmtune training state 1";

std::string tensors_path(const std::string& folder) {
  return cat(folder, "/", kTensorsName);
}
std::string position_path(const std::string& folder) {
  return cat(folder, "/", kPositionName);
}

// Every tensor of the state with its name, in one order for writing and reading.
std::vector<std::pair<std::string, Tensor>> state_tensors(models::CausalLm& model,
                                                          Optimizer& optimizer) {
  std::vector<std::pair<std::string, Tensor>> list;
  model.visit_parameters([&](nn::Parameter& p) {
    if (training_changes(p)) list.emplace_back(p.name, p.value);
  });
  optimizer.visit_state([&](const std::string& name, Tensor t) { list.emplace_back(name, t); });
  return list;
}

// Tells how much of a list of tensors is done.
class ByteCounter {
 public:
  ByteCounter(const std::vector<std::pair<std::string, Tensor>>& tensors,
              const models::ByteCount& progress)
      : progress_(progress) {
    for (const auto& [name, t] : tensors) total_ += t.bytes();
  }
  void add(const Tensor& t) {
    done_ += t.bytes();
    if (progress_) progress_(done_, total_);
  }

 private:
  const models::ByteCount& progress_;
  std::uint64_t done_ = 0, total_ = 0;
};

std::vector<std::int64_t> shape_of(const Tensor& t) {
  return {t.sizes.begin(), t.sizes.begin() + t.rank};
}

const io::Value& member(const io::Value& object, const char* key, const std::string& where) {
  const io::Value* v = object.is_object() ? object.find(key) : nullptr;
  if (v == nullptr) fail(cat(where, ": has no key ", key, "; the checkpoint is damaged"));
  return *v;
}

std::uint64_t seed_of(const std::string& digits, const std::string& where) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail(
        cat(where, ": seed is '", digits, "', expected a whole number; the checkpoint is damaged"));
  return seed;
}

}  // namespace

bool training_changes(const nn::Parameter& p) {
  return p.trainable || p.name.ends_with(kRouterBias);
}

std::string model_signature(models::CausalLm& model, void* stream) {
  Fnv1a hash;
  model.visit_parameters([&](nn::Parameter& p) {
    hash.add(cat(p.name, " ", p.value.shape_string(), "\n"));
    if (training_changes(p)) return;
    // Frozen parameters tell one base model from another of the same shape.
    const std::int64_t n = p.value.count();
    const OwnedTensor host({n}, p.value.dtype, Device::kCpu);
    copy_bytes(host, p.value.reshape({n}), stream);
    const auto* bytes = host.view.as<const unsigned char>();
    for (std::size_t i = 0; i < host.view.bytes(); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + i, std::min<std::size_t>(8, host.view.bytes() - i));
      hash.add(word);
    }
  });
  return cat(kSignatureVersion, std::hex, hash.value());
}

Checksums save_state(const std::string& folder, const TrainingPosition& position,
                     models::CausalLm& model, Optimizer& optimizer, void* stream,
                     const models::ByteCount& progress) {
  const auto tensors = state_tensors(model, optimizer);
  std::vector<io::TensorInfo> infos;
  infos.reserve(tensors.size());
  for (const auto& [name, t] : tensors)
    infos.push_back({.name = name, .dtype = t.dtype, .shape = shape_of(t)});
  io::SafetensorsWriter writer(tensors_path(folder), std::move(infos),
                               {{"format", "pt"}, {"glmtune", kFormat}});
  ByteCounter counter(tensors, progress);
  for (const auto& [name, t] : tensors) {
    writer.append(t, stream);
    counter.add(t);
  }
  const std::uint32_t checksum = writer.finish();

  io::Value state(io::Value::Object{
      {"format", kFormat},
      {"next_step", position.next_step},
      {"updates", position.updates},
      {"epoch", position.cursor.epoch},
      {"next_pack", position.cursor.next},
      {"seed", std::to_string(position.seed)},
      {"data_fingerprint", position.data_fingerprint},
      {"chat_template_sha256", position.template_sha256},
      {"model_signature", position.model_signature},
      {"settings", position.settings},
      {"next_lr", position.next_lr ? io::Value(*position.next_lr) : io::Value()}});
  io::write_file(position_path(folder), io::to_json(state, {.indent = 2}) + "\n");
  return {{kTensorsName, checksum}};
}

TrainingPosition read_position(const std::string& folder) {
  const std::string where = position_path(folder);
  const io::Value state = io::read_json_file(where);
  if (member(state, "format", where).as_string() != kFormat)
    fail(cat(where, ": format is '", member(state, "format", where).as_string(), "', expected '",
             kFormat, "'"));
  TrainingPosition p;
  p.next_step = member(state, "next_step", where).as_int();
  p.updates = member(state, "updates", where).as_int();
  p.cursor = {.epoch = member(state, "epoch", where).as_int(),
              .next = member(state, "next_pack", where).as_int()};
  p.seed = seed_of(member(state, "seed", where).as_string(), where);
  p.data_fingerprint = member(state, "data_fingerprint", where).as_string();
  if (const io::Value* sha = state.find("chat_template_sha256"))
    p.template_sha256 = sha->as_string();
  p.model_signature = member(state, "model_signature", where).as_string();
  if (const io::Value* settings = state.find("settings")) p.settings = *settings;
  if (const io::Value* lr = state.find("next_lr"); lr != nullptr && lr->is_number())
    p.next_lr = lr->as_double();
  return p;
}

void load_state(const std::string& folder, models::CausalLm& model, Optimizer& optimizer,
                void* stream, const models::ByteCount& progress) {
  const io::SafetensorsFile file = io::SafetensorsFile::open(tensors_path(folder));
  std::unordered_set<std::string> wanted;
  const auto tensors = state_tensors(model, optimizer);
  ByteCounter counter(tensors, progress);
  for (const auto& [name, t] : tensors) {
    const io::TensorInfo& info = file.at(name);
    if (info.dtype != t.dtype || info.shape != shape_of(t))
      fail(cat(file.path(), ": ", name, " is ", info.shape_string(), ", this run's is ",
               t.shape_string(), "; resume with the recipe the checkpoint was made with"));
    file.read(name, t, stream);
    counter.add(t);
    wanted.insert(name);
  }
  for (const io::TensorInfo& info : file.tensors())
    if (!wanted.contains(info.name))
      fail(cat(file.path(), ": holds ", info.name, ", which this run does not have; resume with ",
               "the recipe the checkpoint was made with"));
}

std::string export_command(const std::string& step_folder) {
  return cat("glmtune ", shell_word(step_folder + "/config.yaml"), " --checkpoint.restore_from ",
             shell_word(step_folder),
             " --checkpoint.checkpoint_dir OTHER --checkpoint.save_consolidated final",
             " --step_scheduler.max_steps 0");
}

}  // namespace glmtune::train
