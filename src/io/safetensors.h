#pragma once
// safetensors files: u64 header length, a JSON header {name: {dtype, shape, data_offsets}}, data.
// Reading is strict (no holes, no overlaps, nothing after the data); messages name file and tensor.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/files.h"
#include "tensor/tensor.h"

namespace glmtune::io {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // {} is a scalar of one element
  std::uint64_t offset = 0;         // of the first byte, from the start of the file

  std::int64_t count() const;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(count()) * size_of(dtype); }
  std::string shape_string() const;  // "[3, 4] BF16"
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the order of the data
  const Metadata& metadata() const { return metadata_; }
  const TensorInfo* find(std::string_view name) const;  // null when absent
  const TensorInfo& at(std::string_view name) const;    // an error when absent

  // The whole tensor into `dst`: same shape, contiguous, any dtype of convert.h, CPU or CUDA
  // memory.
  void read(std::string_view name, Tensor dst, void* stream = nullptr) const;
  // The tensor's own bytes [first, first + bytes) into CPU memory.
  void read_bytes(const TensorInfo& tensor, std::uint64_t first, void* dst,
                  std::size_t bytes) const;
  // Elements [first, first + n), converted, into CPU memory.
  void read_elements(const TensorInfo& tensor, std::int64_t first, std::int64_t n, void* dst,
                     DType dtype) const;

 private:
  explicit SafetensorsFile(ReadFile file) : file_(std::move(file)) {}

  ReadFile file_;
  std::vector<TensorInfo> tensors_;
  Metadata metadata_;
  std::unordered_map<std::string, std::size_t> index_;
};

// Streams a file: the tensors are declared first, then their data is appended in that order, in
// pieces of any size. The file appears under its name when finish() has made it durable.
class SafetensorsWriter {
 public:
  // TensorInfo::offset is ignored. A disk with too little free space is refused at once.
  SafetensorsWriter(const std::string& path, std::vector<TensorInfo> tensors,
                    const Metadata& metadata = {{"format", "pt"}});

  void append(const void* data, std::size_t bytes);
  // A contiguous tensor of CPU or CUDA memory, in its own dtype.
  void append(Tensor t, void* stream = nullptr);
  std::uint32_t finish();  // gives the file's crc32c
  std::uint64_t file_bytes() const { return header_bytes_ + data_bytes_; }

 private:
  std::vector<TensorInfo> tensors_;
  std::uint64_t header_bytes_ = 0;
  std::uint64_t data_bytes_ = 0;
  std::unique_ptr<AtomicFile> file_;
};

// "[3, 4]"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace glmtune::io
