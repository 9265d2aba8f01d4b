// Writing a checkpoint back.
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

#include "base/cat.h"
#include "base/error.h"
#include "io/convert.h"
#include "models/folder_files.h"
#include "models/hf_checkpoint.h"
#include "models/stored_reader.h"

namespace glmtune::models {
namespace {

namespace fs = std::filesystem;

// n elements of `t` from `first` on, in host memory: `staging` is used for device memory.
const std::byte* host_elements(Tensor t, std::int64_t first, std::int64_t n,
                               std::vector<std::byte>& staging, void* stream) {
  std::byte* from = t.as<std::byte>() + static_cast<std::size_t>(first) * size_of(t.dtype);
  if (t.device == Device::kCpu) return from;
  staging.resize(static_cast<std::size_t>(n) * size_of(t.dtype));
  copy_bytes(Tensor::dense(staging.data(), {n}, t.dtype, Device::kCpu),
             Tensor::dense(from, {n}, t.dtype, t.device), stream);
  return staging.data();
}

// True when the stored tensor, converted to the parameter's dtype, has the parameter's bits.
bool unchanged(const StoredReader& source, Tensor value, void* stream) {
  const std::int64_t count = value.count();
  const std::size_t size = size_of(value.dtype);
  std::vector<std::byte> staging;
  std::vector<std::byte> stored(static_cast<std::size_t>(std::min(count, kStreamChunk)) * size);
  for (std::int64_t first = 0; first < count; first += kStreamChunk) {
    const std::int64_t n = std::min(kStreamChunk, count - first);
    source.read(first, n, stored.data(), value.dtype);
    const std::byte* now = host_elements(value, first, n, staging, stream);
    if (std::memcmp(now, stored.data(), static_cast<std::size_t>(n) * size) != 0) return false;
  }
  return true;
}

void append_source(io::SafetensorsWriter& out, const StoredReader& source, DType dtype) {
  const std::int64_t count = source.info().count();
  std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(count, kStreamChunk)) *
                               size_of(dtype));
  for (std::int64_t first = 0; first < count; first += kStreamChunk) {
    const std::int64_t n = std::min(kStreamChunk, count - first);
    source.read(first, n, chunk.data(), dtype);
    out.append(chunk.data(), static_cast<std::size_t>(n) * size_of(dtype));
  }
}

void append_value(io::SafetensorsWriter& out, Tensor value, DType dtype, void* stream) {
  if (value.dtype == dtype) return out.append(value, stream);
  const std::int64_t count = value.count();
  std::vector<std::byte> staging;
  std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(count, kStreamChunk)) *
                               size_of(dtype));
  for (std::int64_t first = 0; first < count; first += kStreamChunk) {
    const std::int64_t n = std::min(kStreamChunk, count - first);
    io::convert_elements(host_elements(value, first, n, staging, stream), value.dtype, chunk.data(),
                         dtype, n);
    out.append(chunk.data(), static_cast<std::size_t>(n) * size_of(dtype));
  }
}

// One save: which parameter part belongs to which stored tensor, and how each is stored.
class Saver {
 public:
  Saver(const HfCheckpoint& source, const SaveOptions& options)
      : source_(source), files_(source.files()), options_(options) {
    for (const TensorSpec& spec : stored_tensors(source.config(), files_)) {
      specs_.emplace(spec.name, spec);
    }
  }

  void take(std::span<nn::Parameter* const> parameters) {
    for (const nn::Parameter* p : parameters) {
      for (StoredPart& part : stored_parts(files_, *p)) {
        const StoredTensor* stored = files_.find(part.name);
        if (stored == nullptr) {
          if (source_.config().tie_word_embeddings && part.name == "lm_head.weight") continue;
          fail(cat(files_.folder, ": parameter ", p->name, " has no tensor ", part.name,
                   " in the source checkpoint"));
        }
        const Tensor& t = part.part;
        if (t.device == Device::kMeta) fail(cat(p->name, ": has no data on the meta device"));
        if (std::vector<std::int64_t>(t.sizes.begin(), t.sizes.begin() + t.rank) !=
            stored->info->shape) {
          fail(cat(part.name, ": the parameter has ", t.shape_string(), ", the source checkpoint ",
                   stored->info->shape_string()));
        }
        values_.emplace(part.name, t);
      }
    }
    if (source_.config().tie_word_embeddings && files_.find("lm_head.weight") != nullptr) {
      values_["lm_head.weight"] = values_["model.embed_tokens.weight"];
    }
    Problems problems;
    for (const auto& [name, spec] : specs_) {
      if (!spec.pass_through && !values_.contains(name)) {
        problems.add(cat(name, ": no parameter holds it"));
      }
    }
    problems.raise("saving: the model does not cover the checkpoint");
    for (const auto& [name, tensor] : files_.tensors) {
      io::TensorInfo info = *tensor.info;
      const std::optional<DType> dtype = stored_dtype(info);
      if (!dtype) continue;
      info.dtype = *dtype;
      total_ += info.bytes();
    }
  }

  // Null for a tensor that the new checkpoint does not have (scales of what is dequantised).
  std::optional<DType> stored_dtype(const io::TensorInfo& info) const {
    const auto spec = specs_.find(info.name);
    const bool main = values_.contains(info.name);
    if (!main && spec == specs_.end() && info.name.ends_with("_scale_inv")) {
      const std::string base = info.name.substr(0, info.name.size() - 10);
      const StoredTensor* quantised = files_.find(base);
      if (quantised != nullptr && quantised->info->dtype == DType::kF8E4M3) return std::nullopt;
    }
    if (info.dtype == DType::kF8E4M3) return options_.dtype.value_or(DType::kBF16);
    if (!main) return info.dtype;
    if (spec != specs_.end() && spec->second.always_f32) return DType::kF32;
    return options_.dtype.value_or(info.dtype);
  }

  void write(const io::SafetensorsFile& file, const std::string& path, SaveReport& report) {
    std::vector<io::TensorInfo> out;
    std::vector<const io::TensorInfo*> from;
    for (const io::TensorInfo& info : file.tensors()) {
      const auto dtype = stored_dtype(info);
      if (!dtype) {
        ++dropped_scales_;
        continue;
      }
      io::TensorInfo t = info;
      t.dtype = *dtype;
      if (t.dtype != info.dtype) ++converted_;
      from.push_back(&info);
      report.bytes += t.bytes();
      elements_ += t.count();
      out.push_back(std::move(t));
    }
    report.tensors += static_cast<std::int64_t>(out.size());
    io::SafetensorsWriter writer(path, out, file.metadata());
    for (std::size_t i = 0; i < out.size(); ++i) {
      try {
        write_tensor(writer, file, *from[i], out[i].dtype);
        written_ += out[i].bytes();
        if (options_.progress) options_.progress(written_, total_);
      } catch (const MachineError&) {
        throw;
      } catch (const Error& e) {
        fail(cat(path, ": tensor ", out[i].name, ": ", e.what()));
      }
    }
    report.checksums.push_back(writer.finish());
  }

  std::int64_t dropped_scales() const { return dropped_scales_; }
  std::int64_t converted() const { return converted_; }
  std::int64_t elements() const { return elements_; }

 private:
  void write_tensor(io::SafetensorsWriter& writer, const io::SafetensorsFile& file,
                    const io::TensorInfo& info, DType dtype) const {
    const auto value = values_.find(info.name);
    if (value != values_.end() && value->second.dtype == dtype) {
      return writer.append(value->second, options_.stream);
    }
    const StoredReader source(files_, source_.config(), StoredTensor{&file, &info});
    if (value == values_.end() || unchanged(source, value->second, options_.stream)) {
      return append_source(writer, source, dtype);
    }
    append_value(writer, value->second, dtype, options_.stream);
  }

  const HfCheckpoint& source_;
  const CheckpointFiles& files_;
  const SaveOptions& options_;
  std::unordered_map<std::string, TensorSpec> specs_;
  std::unordered_map<std::string, Tensor> values_;
  std::int64_t dropped_scales_ = 0;
  std::int64_t converted_ = 0;
  std::int64_t elements_ = 0;
  std::uint64_t written_ = 0, total_ = 0;  // bytes of tensor data
};

// The index of the new files; the source's bytes when it says the same.
void write_index(const CheckpointFiles& files, const std::string& folder, const Saver& saver,
                 SaveReport& report) {
  if (!files.index) return;
  constexpr const char* kName = "model.safetensors.index.json";
  io::Value index = *files.index;
  io::Value* map = index.find("weight_map");
  std::erase_if(map->as_object(), [&](const io::Value::Member& m) {
    return !saver.stored_dtype(*files.find(m.first)->info).has_value();
  });
  if (index.find("metadata") == nullptr || !index.find("metadata")->is_object()) {
    index.set("metadata", io::Value::Object{});
  }
  io::Value& metadata = *index.find("metadata");
  metadata.set("total_size", static_cast<std::int64_t>(report.bytes));
  if (metadata.find("total_parameters") != nullptr && saver.dropped_scales() > 0) {
    metadata.set("total_parameters", saver.elements());
  }
  const std::string path = (fs::path(folder) / kName).string();
  if (index == *files.index) {
    io::write_file(path, files.index_text);
    return;
  }
  io::write_file(path, io::to_json(index, {.indent = 2}) + "\n");
  report.changes.push_back(cat(kName, ": total_size is ", report.bytes, " now"));
}

void write_config(const HfCheckpoint& source, const std::string& source_text,
                  const std::string& folder, const SaveOptions& options, SaveReport& report) {
  const std::string to = (fs::path(folder) / "config.json").string();
  io::Value config = io::parse_json(source_text, "config.json");
  const std::size_t changes = report.changes.size();
  if (const io::Value* q = config.find("quantization_config"); q != nullptr && !q->is_null()) {
    config.erase("quantization_config");
    report.changes.emplace_back(
        "config.json: quantization_config is removed, the weights are not FP8");
  }
  if (options.dtype || source.quantized()) {
    const std::string name = config_dtype_name(options.dtype.value_or(DType::kBF16));
    bool named = false;
    for (const char* key : {"dtype", "torch_dtype"}) {
      const io::Value* old = config.find(key);
      if (old == nullptr) continue;
      named = true;
      if (*old == io::Value(name)) continue;
      report.changes.push_back(cat("config.json: ", key, " is ", name, " now"));
      config.set(key, name);
    }
    if (!named) {
      config.set("dtype", name);
      report.changes.push_back(cat("config.json: dtype is ", name, " now"));
    }
  }
  if (report.changes.size() == changes) {
    io::write_file(to, source_text);
  } else {
    io::write_file(to, io::to_json(config, {.indent = 2}) + "\n");
  }
}

}  // namespace

SaveReport HfCheckpoint::save(const std::string& folder, std::span<nn::Parameter* const> parameters,
                              const SaveOptions& options) const {
  if (options.dtype && *options.dtype != DType::kF64 && *options.dtype != DType::kF32 &&
      *options.dtype != DType::kBF16 && *options.dtype != DType::kF16) {
    fail(cat("saving as ", name_of(*options.dtype), " is not supported"));
  }
  make_folder(folder);
  std::error_code gone;
  if (fs::equivalent(folder, this->folder(), gone)) {
    fail(cat(folder, ": is the source checkpoint itself; write to another folder"));
  }
  SaveReport report;
  Saver saver(*this, options);
  saver.take(parameters);
  for (const io::SafetensorsFile& file : files_->files) {
    const std::string name = fs::path(file.path()).filename().string();
    saver.write(file, (fs::path(folder) / name).string(), report);
    report.weight_files.push_back(name);
  }
  if (saver.dropped_scales() > 0) {
    report.changes.push_back(cat(saver.dropped_scales(), " FP8 tensors are dequantised"));
  } else if (saver.converted() > 0) {
    report.changes.push_back(cat(saver.converted(), " tensors are stored in another dtype"));
  }
  write_index(*files_, folder, saver, report);
  write_config(*this, config_text_, folder, options, report);
  report.copied_files =
      (companions_ ? *companions_ : Companions::read(this->folder())).write(folder);
  io::sync_folder(folder);

  const HfCheckpoint written = open(folder);  // what was written is complete and consistent
  if (static_cast<std::int64_t>(written.files_->tensors.size()) != report.tensors) {
    fail(cat(folder, ": ", report.tensors, " tensors were written, ",
             written.files_->tensors.size(), " are found; the folder cannot be used"));
  }
  return report;
}

}  // namespace glmtune::models
