#pragma once
// What a checkpoint folder or one safetensors file holds, for people and as JSON. Nothing is
// refused that can be described: problems are listed.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "models/glm_config.h"

namespace glmtune::models {

struct Inspection {
  struct Count {
    std::string name;
    std::int64_t tensors = 0;
    std::int64_t elements = 0;
    std::uint64_t bytes = 0;
  };
  struct Listed {
    std::string name;
    std::string shape;  // "[3, 4] BF16"
  };

  std::string path;
  std::optional<GlmConfig> config;  // of a checkpoint folder
  std::vector<std::string> files;   // names of the weight files
  std::vector<Count> components;    // of a checkpoint folder: embedding, attention, experts, ...
  std::vector<Count> dtypes;
  std::vector<Listed> tensors;  // of a single file, in the order of its data
  Count total;
  std::int64_t active_per_token = 0;  // parameters one token meets, head included, embedding not
  bool quantized = false;
  bool has_mtp = false;
  std::vector<std::string> problems;  // missing, unexpected, misshaped tensors and the like
};

Inspection inspect(const std::string& path);

std::string to_text(const Inspection& inspection);
io::Value to_value(const Inspection& inspection);

}  // namespace glmtune::models
