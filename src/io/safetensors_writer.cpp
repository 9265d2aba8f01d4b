#include <algorithm>
#include <unordered_set>

#include "base/cat.h"
#include "base/error.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace glmtune::io {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 20U;

// Compact, metadata first, padded with spaces to a multiple of 8: byte for byte what the reference
// implementation writes for the same tensors.
std::string header_text(const std::vector<TensorInfo>& tensors, const Metadata& metadata) {
  std::string s = "{";
  if (!metadata.empty()) {
    s += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      s += cat(s.back() == '{' ? "" : ",", to_json(Value(key)), ":", to_json(Value(value)));
    }
    s += "}";
  }
  std::uint64_t offset = 0;
  for (const TensorInfo& t : tensors) {
    s += cat(s.size() == 1 ? "" : ",", to_json(Value(t.name)), ":{\"dtype\":\"", name_of(t.dtype),
             "\",\"shape\":[");
    for (std::size_t i = 0; i < t.shape.size(); ++i) s += cat(i == 0 ? "" : ",", t.shape[i]);
    s += cat("],\"data_offsets\":[", offset, ",", offset + t.bytes(), "]}");
    offset += t.bytes();
  }
  s += "}";
  s.resize((s.size() + 7) / 8 * 8, ' ');
  return s;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<TensorInfo> tensors,
                                     const Metadata& metadata)
    : tensors_(std::move(tensors)) {
  std::unordered_set<std::string> names;
  for (const TensorInfo& t : tensors_) {
    if (!names.insert(t.name).second) fail(cat(path, ": tensor ", t.name, " is declared twice"));
    data_bytes_ += t.bytes();
  }
  const std::string header = header_text(tensors_, metadata);
  header_bytes_ = 8 + header.size();
  if (const std::uint64_t free = free_bytes(path); free < file_bytes()) {
    fail_machine(cat(path, ": ", human_bytes(file_bytes()), " are needed, ", human_bytes(free),
                     " are free there; free space or write to another folder"));
  }
  file_ = std::make_unique<AtomicFile>(path);
  unsigned char length[8];
  for (unsigned i = 0; i < 8; ++i) {
    length[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  }
  file_->append(length, sizeof length);
  file_->append(header);
}

void SafetensorsWriter::append(const void* data, std::size_t bytes) {
  check(file_ != nullptr, "append after finish");
  if (file_->written() + bytes > file_bytes()) {
    fail(cat("more bytes were appended than the ", data_bytes_, " that were declared"));
  }
  file_->append(data, bytes);
}

void SafetensorsWriter::append(Tensor t, void* stream) {
  check(t.contiguous(), "writing a tensor needs contiguous memory");
  check(t.device != Device::kMeta, "a tensor of the meta device has no data to write");
  if (t.device == Device::kCpu) return append(t.data, t.bytes());
  const std::size_t total = t.bytes();
  Buffer staging(std::min(total, kChunkBytes), Device::kCpu);
  for (std::size_t at = 0; at < total; at += kChunkBytes) {
    const std::size_t n = std::min(kChunkBytes, total - at);
    const auto count = static_cast<std::int64_t>(n);
    copy_bytes(Tensor::dense(staging.data(), {count}, DType::kU8, Device::kCpu),
               Tensor::dense(t.as<std::byte>() + at, {count}, DType::kU8, t.device), stream);
    append(staging.data(), n);
  }
}

std::uint32_t SafetensorsWriter::finish() {
  check(file_ != nullptr, "finish called twice");
  if (file_->written() != file_bytes()) {
    fail(cat("only ", file_->written() - header_bytes_, " of the ", data_bytes_,
             " declared bytes were appended"));
  }
  file_->commit();
  const std::uint32_t checksum = file_->checksum();
  file_.reset();
  return checksum;
}

}  // namespace glmtune::io
