#pragma once
// The weight files of a Hugging Face folder: one model.safetensors, or shards with an index. What
// is wrong with them is collected, so that one message can name it all.
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/json.h"
#include "io/safetensors.h"
#include "models/glm_config.h"

namespace glmtune::models {

class Problems {
 public:
  void add(std::string problem) { list_.push_back(std::move(problem)); }
  bool empty() const { return list_.empty(); }
  const std::vector<std::string>& list() const { return list_; }
  // Throws one Error: `what`, the count and the first ten. Nothing when there are none.
  void raise(const std::string& what) const;

 private:
  std::vector<std::string> list_;
};

struct StoredTensor {
  const io::SafetensorsFile* file = nullptr;
  const io::TensorInfo* info = nullptr;
};

struct CheckpointFiles {
  std::string folder;
  std::vector<std::string> names;          // of the weight files, sorted
  std::vector<io::SafetensorsFile> files;  // in the same order, those that could be opened
  std::optional<io::Value> index;          // of a sharded checkpoint
  std::string index_text;                  // the same as it stands in its file
  std::unordered_map<std::string, StoredTensor> tensors;

  // Opens every file and checks index against headers. A folder without weights is an Error; all
  // else goes to `problems`.
  static CheckpointFiles open(const std::string& folder, Problems& problems);

  const StoredTensor* find(const std::string& name) const;
  std::uint64_t data_bytes() const;
};

// The checkpoint's tensors as they should be stored in these files: expected_tensors with the
// experts of a layer stacked where the files hold them so, and without MTP layers where the files
// hold none of their tensors.
std::vector<TensorSpec> stored_tensors(const GlmConfig& config, const CheckpointFiles& files);

// True for the tensors of an MTP layer, also those that not every checkpoint has.
bool is_mtp_tensor(const GlmConfig& config, std::string_view name);

// Missing, unexpected and misshaped tensors, wrong types, FP8 tensors without their scales.
void compare(const CheckpointFiles& files, const GlmConfig& config, Problems& problems);

// A tied model reads its head from the embedding: a head stored beside it must be the same. Reads
// both; for files in which compare finds nothing.
void check_tied_head(const CheckpointFiles& files, const GlmConfig& config, Problems& problems);

}  // namespace glmtune::models
