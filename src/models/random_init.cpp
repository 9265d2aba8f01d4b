#include "models/random_init.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <future>

#include "base/cat.h"
#include "base/error.h"
#include "base/fnv.h"
#include "io/convert.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "models/folder_files.h"
#include "ops/elementwise.h"
#include "ops/random.h"

namespace glmtune::models {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunk = std::int64_t{1} << 23;

struct Shard {
  std::vector<const TensorSpec*> specs;
  std::uint64_t bytes = 0;
};

DType dtype_for(const TensorSpec& spec, DType dtype) {
  return spec.always_f32 ? DType::kF32 : dtype;
}

std::vector<Shard> plan_shards(const std::vector<TensorSpec>& specs, DType dtype,
                               std::uint64_t most) {
  std::vector<Shard> shards(1);
  for (const TensorSpec& spec : specs) {
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(spec.count()) * size_of(dtype_for(spec, dtype));
    if (shards.back().bytes > 0 && shards.back().bytes + bytes > most) shards.emplace_back();
    shards.back().specs.push_back(&spec);
    shards.back().bytes += bytes;
  }
  return shards;
}

std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return text.data();
}

// Values of a tensor as they are stored.
void stored_values(const TensorSpec& spec, double initializer_range, std::uint64_t seed,
                   std::int64_t first, std::int64_t n, DType dtype, std::byte* out) {
  if (dtype != DType::kF16)
    return initial_values(spec, initializer_range, seed, first,
                          Tensor::dense(out, {n}, dtype, Device::kCpu));
  const OwnedTensor values({n}, DType::kF32, Device::kCpu);
  initial_values(spec, initializer_range, seed, first, values.view);
  io::convert_elements(values.view.data, DType::kF32, out, dtype, n);
}

// Appends tensors to a file: a chunk is written while the next one is drawn.
class TensorWriter {
 public:
  TensorWriter(io::SafetensorsWriter& file, const std::atomic<int>* stop)
      : file_(file), stop_(stop) {}
  TensorWriter(const TensorWriter&) = delete;
  TensorWriter& operator=(const TensorWriter&) = delete;
  ~TensorWriter() {
    if (written_.valid()) written_.wait();
  }

  void write(const TensorSpec& spec, double initializer_range, std::uint64_t seed, DType dtype) {
    const std::int64_t count = spec.count();
    for (std::int64_t first = 0; first < count; first += kChunk) {
      if (stop_ != nullptr && stop_->load() != 0) throw InitInterrupted("stopped by a signal");
      const std::int64_t n = std::min(kChunk, count - first);
      const std::size_t bytes = static_cast<std::size_t>(n) * size_of(dtype);
      std::vector<std::byte>& buffer = buffers_[chunks_++ % 2];
      buffer.resize(std::max(buffer.size(), bytes));
      stored_values(spec, initializer_range, seed, first, n, dtype, buffer.data());
      finish();
      written_ = std::async(std::launch::async,
                            [this, &buffer, bytes] { file_.append(buffer.data(), bytes); });
    }
  }
  void finish() {
    if (written_.valid()) written_.get();
  }

 private:
  io::SafetensorsWriter& file_;
  const std::atomic<int>* stop_;
  std::array<std::vector<std::byte>, 2> buffers_;
  std::size_t chunks_ = 0;
  std::future<void> written_;
};

void write_weights(const GlmConfig& config, const std::string& folder, const InitOptions& options,
                   InitReport& report) {
  const std::vector<TensorSpec> specs = expected_tensors(config);
  const std::vector<Shard> shards = plan_shards(specs, report.dtype, options.shard_bytes);
  for (const Shard& s : shards) report.bytes += s.bytes;
  if (const std::uint64_t free = io::free_bytes(folder); free < report.bytes) {
    fail_machine(cat(folder, ": the checkpoint needs ", io::human_bytes(report.bytes), ", ",
                     io::human_bytes(free), " are free there"));
  }
  io::Value::Object weight_map;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    std::vector<io::TensorInfo> infos;
    for (const TensorSpec* spec : shards[i].specs) {
      infos.push_back(
          {.name = spec->name, .dtype = dtype_for(*spec, report.dtype), .shape = spec->shape});
      report.parameters += spec->count();
      weight_map.emplace_back(spec->name, name);
    }
    report.tensors += static_cast<std::int64_t>(infos.size());
    io::SafetensorsWriter writer((fs::path(folder) / name).string(), std::move(infos));
    TensorWriter tensors(writer, options.stop);
    for (const TensorSpec* spec : shards[i].specs)
      tensors.write(*spec, config.initializer_range, options.seed, dtype_for(*spec, report.dtype));
    tensors.finish();
    writer.finish();
    report.weight_files.push_back(name);
  }
  if (shards.size() == 1) return;
  const io::Value index = io::Value::Object{
      {"metadata", io::Value::Object{{"total_size", static_cast<std::int64_t>(report.bytes)}}},
      {"weight_map", std::move(weight_map)}};
  io::write_file((fs::path(folder) / "model.safetensors.index.json").string(),
                 io::to_json(index, {.indent = 2}) + "\n");
}

void write_config(const std::string& config_json, const std::string& folder, DType dtype,
                  bool dtype_changed) {
  const std::string to = (fs::path(folder) / "config.json").string();
  if (!dtype_changed) return io::copy_file(config_json, to);
  io::Value config = io::read_json_file(config_json);
  config.erase("torch_dtype");
  config.set("dtype", config_dtype_name(dtype));
  io::write_file(to, io::to_json(config, {.indent = 2}) + "\n");
}

}  // namespace

std::uint64_t random_key(std::uint64_t seed, std::string_view name) {
  // The finaliser of SplitMix64 over the name's hash.
  Fnv1a hash;
  hash.add(name);
  std::uint64_t h = hash.value() ^ seed * 0x9E3779B97F4A7C15;
  h = (h ^ (h >> 30U)) * 0xBF58476D1CE4E5B9;
  h = (h ^ (h >> 27U)) * 0x94D049BB133111EB;
  return h ^ (h >> 31U);
}

void initial_values(const TensorSpec& spec, double initializer_range, std::uint64_t seed,
                    std::int64_t first, Tensor out) {
  Context cpu;
  if (spec.initializer == Initializer::kNormal)
    return run(cpu, ops::RandomNormal{.y = out,
                                      .key = random_key(seed, spec.name),
                                      .deviation = initializer_range,
                                      .first = first});
  run(cpu, ops::Fill{.x = out, .value = spec.initializer == Initializer::kOnes ? 1.0 : 0.0});
}

void random_parameters(Context& ctx, std::span<nn::Parameter* const> parameters, double deviation,
                       std::uint64_t seed) {
  for (const nn::Parameter* p : parameters) {
    if (p->value.rank == 1) {
      run(ctx, ops::Fill{.x = p->value, .value = p->name.ends_with(".weight") ? 1.0 : 0.0});
      continue;
    }
    run(ctx, ops::RandomNormal{.y = p->value.reshape({p->value.count()}),
                               .key = random_key(seed, p->name),
                               .deviation = deviation});
  }
}

InitReport write_random_checkpoint(const std::string& config_json, const std::string& folder,
                                   const InitOptions& options) {
  const GlmConfig config = read_glm_config(config_json);
  if (config.quantization_config) {
    fail(cat(config_json, ": key `quantization_config`: random checkpoints are not quantised; ",
             "remove it"));
  }
  if (fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder))) {
    fail(cat(folder, ": exists already; choose a new folder or remove it first"));
  }
  InitReport report;
  report.dtype = options.dtype.value_or(config.dtype.value_or(DType::kF32));
  const bool dtype_changed = config.dtype != report.dtype;

  std::string target = fs::absolute(folder).lexically_normal().string();
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  const std::string staging = cat(target, ".incomplete-", ::getpid());
  make_folder(staging);
  try {
    write_weights(config, staging, options, report);
    write_config(config_json, staging, report.dtype, dtype_changed);
    const std::string beside = fs::absolute(config_json).parent_path().string();
    report.copied_files = Companions::read(beside).write(staging);
    io::sync_folder(staging);
    io::rename_folder(staging, target);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(staging, ignored);
    throw;
  }
  return report;
}

}  // namespace glmtune::models
