#pragma once
// StoredReader: elements of one stored tensor in the dtype that is wanted; block-scaled FP8 is
// dequantised: W[r, c] = bf16(q[r, c] * S[r / block_rows, c / block_columns]).
#include <vector>

#include "models/checkpoint_files.h"

namespace glmtune::models {

class StoredReader {
 public:
  StoredReader(const CheckpointFiles& files, const GlmConfig& config, const StoredTensor& tensor);

  const io::TensorInfo& info() const { return *tensor_.info; }
  // Elements [first, first + n) into CPU memory; Error for types that do not convert.
  void read(std::int64_t first, std::int64_t n, void* dst, DType dtype) const;
  // All of it into a contiguous tensor of the same shape, on any device.
  void read_all(Tensor dst, void* stream) const;

 private:
  StoredTensor tensor_;
  Fp8Blocks blocks_;
  std::vector<float> scales_;  // [blocks of rows, blocks of columns]; empty when not FP8
};

// Elements handled at a time when tensors are streamed.
inline constexpr std::int64_t kStreamChunk = std::int64_t{4} << 20;

}  // namespace glmtune::models
