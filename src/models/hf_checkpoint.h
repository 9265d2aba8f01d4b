#pragma once
// HfCheckpoint: a Hugging Face folder of a GLM-5-family model, opened, checked against its
// config.json, loaded into parameters and written back. Parameters are named as Hugging Face names
// them in memory: the experts of a layer are stacked ([E, 2I, H] with the gate rows first, [E, H,
// I]); files hold them one by one (stacked files are read too, and written back stacked).
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint_files.h"
#include "models/folder_files.h"
#include "nn/parameter.h"

namespace glmtune::models {

// Called while weights are read or written: bytes of tensor data done, and of all.
using ByteCount = std::function<void(std::uint64_t done, std::uint64_t total)>;

struct SaveOptions {
  // How the model's matrices and norms are stored; none: each tensor as in the source (FP8 becomes
  // BF16). The router's correction bias is F32 always, MTP tensors keep the source's bytes.
  std::optional<DType> dtype = {};
  void* stream = nullptr;  // CUDA stream for parameters in device memory
  ByteCount progress = {};
};

struct SaveReport {
  std::vector<std::string> changes;       // what differs from the source by intent, in words
  std::vector<std::string> weight_files;  // names in the new folder
  std::vector<std::uint32_t> checksums;   // crc32c of each of these files
  std::vector<std::string> copied_files;  // tokenizer, template, ...
  std::uint64_t bytes = 0;                // of tensor data
  std::int64_t tensors = 0;
};

class HfCheckpoint {
 public:
  // Reads config.json and every header; no weights. What does not fit is one Error that lists the
  // first problems and their count.
  static HfCheckpoint open(const std::string& folder);
  // Reads the tokenizer and whatever else save() copies, so that it writes the files of now; Error
  // for one that cannot be read. Without this call save() reads them itself.
  void keep_companions();

  const std::string& folder() const { return files_->folder; }
  const GlmConfig& config() const { return config_; }
  const CheckpointFiles& files() const { return *files_; }
  bool has_mtp() const { return has_mtp_; }
  bool quantized() const { return quantized_; }  // holds block-scaled FP8 tensors
  // The checkpoint's own dtype in memory: that of most of its weights; FP8 gives BF16, F16 gives
  // F32.
  DType own_dtype() const { return own_dtype_; }

  // Fills the values (F64, F32 or BF16; CPU or CUDA memory; nothing on the meta device). load()
  // takes a whole model: a checkpoint tensor that no parameter takes is an error.
  void load(std::span<nn::Parameter* const> parameters, void* stream = nullptr,
            const ByteCount& progress = {}) const;
  // loaded: called with the bytes of each part in memory.
  void load_one(nn::Parameter& parameter, void* stream = nullptr,
                const std::function<void(std::uint64_t)>& loaded = {}) const;

  // Writes a folder with the source's tensor names, shapes, dtypes and sharding. A tensor whose
  // values did not change, and MTP layers, keep the source's bytes; config, index and companions
  // are those that were read. Every file and the folder are fsynced, then the folder is opened and
  // checked again. `folder` is made when absent; it must not be the source.
  SaveReport save(const std::string& folder, std::span<nn::Parameter* const> parameters,
                  const SaveOptions& options = {}) const;

 private:
  HfCheckpoint() = default;

  std::string config_text_;  // of config.json
  GlmConfig config_;
  std::shared_ptr<const CheckpointFiles> files_;
  std::shared_ptr<const Companions> companions_;
  bool has_mtp_ = false;
  bool quantized_ = false;
  DType own_dtype_ = DType::kF32;
};

// The stored tensors that make up one parameter, each with its part of the parameter's value.
struct StoredPart {
  std::string name;
  Tensor part;
};
std::vector<StoredPart> stored_parts(const CheckpointFiles& files, const nn::Parameter& parameter);

}  // namespace glmtune::models
