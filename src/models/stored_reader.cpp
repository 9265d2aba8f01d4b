#include "models/stored_reader.h"

#include <algorithm>

#include "base/error.h"
#include "io/convert.h"

namespace glmtune::models {

StoredReader::StoredReader(const CheckpointFiles& files, const GlmConfig& config,
                           const StoredTensor& tensor)
    : tensor_(tensor) {
  if (tensor.info->dtype != DType::kF8E4M3) return;
  const StoredTensor* scale = files.find(tensor.info->name + "_scale_inv");
  check(scale != nullptr && config.quantization_config.has_value(),
        "an FP8 tensor without scales was not refused when the checkpoint was opened");
  blocks_ = *config.quantization_config;
  scales_.resize(static_cast<std::size_t>(scale->info->count()));
  scale->file->read_elements(*scale->info, 0, scale->info->count(), scales_.data(), DType::kF32);
}

void StoredReader::read(std::int64_t first, std::int64_t n, void* dst, DType dtype) const {
  if (scales_.empty()) return tensor_.file->read_elements(info(), first, n, dst, dtype);
  std::vector<float> values(static_cast<std::size_t>(n));
  tensor_.file->read_elements(info(), first, n, values.data(), DType::kF32);
  const std::int64_t columns = info().shape[1];
  const std::int64_t blocks_per_row = (columns + blocks_.block_columns - 1) / blocks_.block_columns;
  std::vector<BFloat16> rounded(values.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = (first + i) / columns;
    const std::int64_t column = (first + i) % columns;
    const std::int64_t block =
        row / blocks_.block_rows * blocks_per_row + column / blocks_.block_columns;
    rounded[static_cast<std::size_t>(i)] =
        BFloat16(values[static_cast<std::size_t>(i)] * scales_[static_cast<std::size_t>(block)]);
  }
  io::convert_elements(rounded.data(), DType::kBF16, dst, dtype, n);
}

void StoredReader::read_all(Tensor dst, void* stream) const {
  check(dst.contiguous(), "loading a tensor needs contiguous memory");
  const std::int64_t count = dst.count();
  const std::size_t size = size_of(dst.dtype);
  const bool host = dst.device == Device::kCpu;
  const Buffer staging(host ? 0 : static_cast<std::size_t>(std::min(count, kStreamChunk)) * size,
                       Device::kCpu);
  for (std::int64_t first = 0; first < count; first += kStreamChunk) {
    const std::int64_t n = std::min(kStreamChunk, count - first);
    std::byte* to = dst.as<std::byte>() + static_cast<std::size_t>(first) * size;
    read(first, n, host ? to : staging.data(), dst.dtype);
    if (host) continue;
    copy_bytes(Tensor::dense(to, {n}, dst.dtype, dst.device),
               Tensor::dense(staging.data(), {n}, dst.dtype, Device::kCpu), stream);
  }
}

}  // namespace glmtune::models
