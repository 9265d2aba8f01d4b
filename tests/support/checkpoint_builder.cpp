#include "support/checkpoint_builder.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>

#include "io/convert.h"
#include "io/safetensors.h"
#include "models/glm_config.h"

namespace glmtune {
namespace {

namespace fs = std::filesystem;

void write_file(const std::string& path, const std::vector<const std::string*>& names,
                const std::map<std::string, RawTensor>& tensors) {
  std::vector<io::TensorInfo> infos;
  for (const std::string* name : names) {
    const RawTensor& t = tensors.at(*name);
    infos.push_back({.name = *name, .dtype = t.dtype, .shape = t.shape});
  }
  io::SafetensorsWriter w(path, infos);
  for (const std::string* name : names) {
    w.append(tensors.at(*name).bytes.data(), tensors.at(*name).bytes.size());
  }
  w.finish();
}

}  // namespace

RawTensor random_tensor(const std::vector<std::int64_t>& shape, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.1F);
  RawTensor t{.dtype = DType::kF32, .shape = shape, .bytes = {}};
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = normal(random);
  t.bytes.resize(values.size() * sizeof(float));
  std::copy_n(reinterpret_cast<const std::byte*>(values.data()), t.bytes.size(), t.bytes.begin());
  return dtype == DType::kF32 ? t : converted(t, dtype);
}

RawTensor converted(const RawTensor& t, DType dtype) {
  const auto n = static_cast<std::int64_t>(t.bytes.size() / size_of(t.dtype));
  RawTensor out{.dtype = dtype, .shape = t.shape, .bytes = {}};
  out.bytes.resize(static_cast<std::size_t>(n) * size_of(dtype));
  io::convert_elements(t.bytes.data(), t.dtype, out.bytes.data(), dtype, n);
  return out;
}

CheckpointBuilder CheckpointBuilder::from(const std::string& folder) {
  CheckpointBuilder b;
  b.config = io::read_json_file(folder + "/config.json");
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".safetensors") || !name.starts_with("model")) continue;
    const auto f = io::SafetensorsFile::open(entry.path().string());
    for (const io::TensorInfo& t : f.tensors()) {
      RawTensor raw{.dtype = t.dtype, .shape = t.shape, .bytes = {}};
      raw.bytes.resize(t.bytes());
      f.read_bytes(t, 0, raw.bytes.data(), raw.bytes.size());
      b.tensors.emplace(t.name, std::move(raw));
    }
  }
  return b;
}

void CheckpointBuilder::write(const std::string& folder, int shards) const {
  fs::create_directories(folder);
  io::write_file(folder + "/config.json", io::to_json(config, {.indent = 2}) + "\n");
  if (shards == 1) {
    std::vector<const std::string*> names;
    for (const auto& [name, t] : tensors) names.push_back(&name);
    write_file(folder + "/model.safetensors", names, tensors);
    return;
  }
  std::vector<std::vector<const std::string*>> dealt(static_cast<std::size_t>(shards));
  io::Value::Object map;
  std::int64_t total = 0;
  std::size_t i = 0;
  const auto file_name = [&](std::size_t shard) {
    char text[64];
    std::snprintf(text, sizeof text, "model-%05zu-of-%05d.safetensors", shard + 1, shards);
    return std::string(text);
  };
  for (const auto& [name, t] : tensors) {
    const std::size_t shard = i++ % static_cast<std::size_t>(shards);
    dealt[shard].push_back(&name);
    map.emplace_back(name, file_name(shard));
    total += static_cast<std::int64_t>(t.bytes.size());
  }
  for (std::size_t s = 0; s < dealt.size(); ++s) {
    write_file(folder + "/" + file_name(s), dealt[s], tensors);
  }
  const io::Value index = io::Value::Object{{"metadata", io::Value::Object{{"total_size", total}}},
                                            {"weight_map", std::move(map)}};
  io::write_file(folder + "/model.safetensors.index.json",
                 io::to_json(index, {.indent = 2}) + "\n");
}

std::map<std::string, RawTensor> quantize_fp8(CheckpointBuilder& b) {
  b.config.set("quantization_config", io::parse_json(R"({"quant_method": "fp8", "fmt": "e4m3",
                                  "activation_scheme": "dynamic", "weight_block_size": [16, 24]})",
                                                     "q"));
  b.config.set("dtype", "bfloat16");
  std::map<std::string, RawTensor> expected;
  unsigned seed = 100;
  for (const models::TensorSpec& spec :
       models::expected_tensors(models::parse_glm_config(b.config, "c"))) {
    RawTensor& t = b.tensors.at(spec.name);
    if (!spec.quantizable) {
      if (!spec.always_f32) t = converted(t, DType::kBF16);
      expected[spec.name] = t;
      continue;
    }
    const std::int64_t rows = (spec.shape[0] + 15) / 16;
    const std::int64_t columns = (spec.shape[1] + 23) / 24;
    const RawTensor scale = random_tensor({rows, columns}, DType::kF32, seed++);
    RawTensor q{.dtype = DType::kF8E4M3, .shape = spec.shape, .bytes = {}};
    RawTensor w{.dtype = DType::kBF16, .shape = spec.shape, .bytes = {}};
    q.bytes.resize(static_cast<std::size_t>(spec.count()));
    w.bytes.resize(q.bytes.size() * 2);
    for (std::int64_t i = 0; i < spec.count(); ++i) {
      const auto bits = static_cast<std::uint8_t>((i * 37 + seed) % 127);
      const std::int64_t block = i / spec.shape[1] / 16 * columns + i % spec.shape[1] / 24;
      q.bytes[static_cast<std::size_t>(i)] = std::byte{bits};
      reinterpret_cast<BFloat16*>(w.bytes.data())[i] = BFloat16(
          io::float_from_f8_e4m3(bits) * reinterpret_cast<const float*>(scale.bytes.data())[block]);
    }
    expected[spec.name] = w;
    t = q;
    b.tensors[spec.name + "_scale_inv"] = scale;
  }
  return expected;
}

}  // namespace glmtune
