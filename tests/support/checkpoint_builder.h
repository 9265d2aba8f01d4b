#pragma once
// Checkpoints for tests, made from another one: tensors are changed, renamed, split over shards.
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "io/json.h"
#include "tensor/dtype.h"

namespace glmtune {

// A tensor's bytes in CPU memory.
struct RawTensor {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  bool operator==(const RawTensor&) const = default;
};

// Random normal values of a checkpoint dtype.
RawTensor random_tensor(const std::vector<std::int64_t>& shape, DType dtype, unsigned seed);
RawTensor converted(const RawTensor& t, DType dtype);

struct CheckpointBuilder {
  io::Value config;
  std::map<std::string, RawTensor> tensors;

  static CheckpointBuilder from(const std::string& folder);  // reads what a folder holds

  // Tensors are dealt to the shards in turn; one shard is a single model.safetensors.
  void write(const std::string& folder, int shards = 1) const;
};

// Makes the weights that block-FP8 releases quantise FP8 (blocks of 16 x 24, random scales), the
// others BF16, and says so in the config. Returns what all tensors are once dequantised.
std::map<std::string, RawTensor> quantize_fp8(CheckpointBuilder& b);

}  // namespace glmtune
