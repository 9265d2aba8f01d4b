#include "models/random_init.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numbers>

#include "base/cat.h"
#include "base/error.h"
#include "io/convert.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "models/folder_files.h"

namespace glmtune::models {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunk = std::int64_t{1} << 20;

using Block = std::array<std::uint32_t, 4>;

// Philox 4x32 with ten rounds (Salmon et al., SC 2011).
Block philox(std::uint64_t counter, std::uint64_t key) {
  Block c = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U), 0, 0};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32U) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32U) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// FNV-1a of the name, mixed with the seed (the finaliser of SplitMix64).
std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t h = 0xCBF29CE484222325;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  h ^= seed * 0x9E3779B97F4A7C15;
  h = (h ^ (h >> 30U)) * 0xBF58476D1CE4E5B9;
  h = (h ^ (h >> 27U)) * 0x94D049BB133111EB;
  return h ^ (h >> 31U);
}

// Four normal numbers from one block: two Box-Muller pairs, uniforms in (0, 1] and [0, 1).
std::array<double, 4> normals(const Block& b) {
  std::array<double, 4> out{};
  for (std::size_t pair = 0; pair < 2; ++pair) {
    const double u = (b[2 * pair] + 1.0) * 0x1p-32;
    const double v = b[2 * pair + 1] * 0x1p-32;
    const double radius = std::sqrt(-2 * std::log(u));
    out[2 * pair] = radius * std::cos(2 * std::numbers::pi * v);
    out[2 * pair + 1] = radius * std::sin(2 * std::numbers::pi * v);
  }
  return out;
}

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

void write_tensor(io::SafetensorsWriter& writer, const TensorSpec& spec, double initializer_range,
                  std::uint64_t seed, DType dtype) {
  const std::int64_t count = spec.count();
  std::vector<float> values(static_cast<std::size_t>(std::min(count, kChunk)));
  std::vector<std::byte> stored(values.size() * size_of(dtype));
  for (std::int64_t first = 0; first < count; first += kChunk) {
    const std::int64_t n = std::min(kChunk, count - first);
    initial_values(spec, initializer_range, seed, first, n, values.data());
    io::convert_elements(values.data(), DType::kF32, stored.data(), dtype, n);
    writer.append(stored.data(), static_cast<std::size_t>(n) * size_of(dtype));
  }
}

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
    for (const TensorSpec* spec : shards[i].specs) {
      write_tensor(writer, *spec, config.initializer_range, options.seed,
                   dtype_for(*spec, report.dtype));
    }
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

void random_normal(std::uint64_t seed, std::string_view name, double deviation, std::int64_t first,
                   std::int64_t n, float* out) {
  const std::uint64_t key = key_of(seed, name);
  const std::int64_t first_block = first / 4;
  const std::int64_t last_block = (first + n + 3) / 4;
#pragma omp parallel for schedule(static) if (n >= 65536)
  for (std::int64_t block = first_block; block < last_block; ++block) {
    const auto values = normals(philox(static_cast<std::uint64_t>(block), key));
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t at = block * 4 + i - first;
      if (at >= 0 && at < n) {
        out[at] = static_cast<float>(deviation * values[static_cast<std::size_t>(i)]);
      }
    }
  }
}

void initial_values(const TensorSpec& spec, double initializer_range, std::uint64_t seed,
                    std::int64_t first, std::int64_t n, float* out) {
  switch (spec.initializer) {
    case Initializer::kNormal:
      return random_normal(seed, spec.name, initializer_range, first, n, out);
    case Initializer::kOnes:
      std::fill_n(out, n, 1.0F);
      return;
    case Initializer::kZeros:
      std::fill_n(out, n, 0.0F);
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
    report.copied_files = copy_companions(beside, staging);
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
