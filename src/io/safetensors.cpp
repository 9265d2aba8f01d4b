#include "io/safetensors.h"

#include <algorithm>
#include <cstring>

#include "base/cat.h"
#include "base/error.h"
#include "io/convert.h"
#include "io/json.h"

namespace glmtune::io {
namespace {

constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr std::int64_t kChunk = std::int64_t{4} << 20;  // elements converted at a time

// One entry of the header. `offset` is left relative to the data; `end` is returned through it.
TensorInfo parse_tensor(const std::string& where, const std::string& name, const Value& v,
                        std::uint64_t data_bytes, std::uint64_t& end) {
  const auto bad = [&](const std::string& what) {
    fail(cat(where, ": tensor ", name, ": ", what));
  };
  if (!v.is_object()) bad(cat("expected an object in the header, found ", v.kind_name()));
  const Value* dtype = v.find("dtype");
  const Value* shape = v.find("shape");
  const Value* offsets = v.find("data_offsets");
  if (dtype == nullptr || !dtype->is_string()) bad("dtype is missing or not a string");
  if (shape == nullptr || !shape->is_array()) bad("shape is missing or not a list");
  if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2) {
    bad("data_offsets is missing or not a pair");
  }
  TensorInfo t{.name = name, .shape = {}};
  const auto known = dtype_from_name(dtype->as_string());
  if (!known) bad(cat("dtype \"", dtype->as_string(), "\" is not supported"));
  t.dtype = *known;
  std::uint64_t count = 1;
  for (const Value& d : shape->as_array()) {
    if (!d.is_int() || d.as_int() < 0) bad("a dimension is not a whole number");
    const auto size = static_cast<std::uint64_t>(d.as_int());
    if (size != 0 && count > data_bytes / size) bad("is larger than the file");
    count *= size;
    t.shape.push_back(d.as_int());
  }
  const Value::Array& pair = offsets->as_array();
  if (!pair[0].is_int() || !pair[1].is_int() || pair[0].as_int() < 0 ||
      pair[1].as_int() < pair[0].as_int()) {
    bad("data_offsets are not two growing whole numbers");
  }
  t.offset = static_cast<std::uint64_t>(pair[0].as_int());
  end = static_cast<std::uint64_t>(pair[1].as_int());
  if (end > data_bytes) {
    bad(cat("ends at byte ", end, " of the data, but the file holds only ", data_bytes,
            "; the file is truncated"));
  }
  if (count * size_of(t.dtype) != end - t.offset) {
    bad(cat("shape ", t.shape_string(), " needs ", count * size_of(t.dtype),
            " bytes, data_offsets give ", end - t.offset));
  }
  return t;
}

// Calls piece(first, n) for chunks of a tensor of `count` elements.
template <class F>
void in_chunks(std::int64_t count, F&& piece) {
  for (std::int64_t first = 0; first < count; first += kChunk) {
    piece(first, std::min(kChunk, count - first));
  }
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string s = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) s += cat(i == 0 ? "" : ", ", shape[i]);
  return s + "]";
}

std::int64_t TensorInfo::count() const {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

std::string TensorInfo::shape_string() const {
  return cat(shape_text(shape), " ", name_of(dtype));
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile f{ReadFile(path)};
  const std::uint64_t size = f.file_.size();
  if (size < 8) {
    fail(cat(path, ": ", size, " bytes are too few for a safetensors file; it is truncated"));
  }
  unsigned char length_bytes[8];
  f.file_.read(0, length_bytes, 8);
  if (std::memcmp(length_bytes, "version ", 8) == 0) {
    fail(cat(path, ": is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`"));
  }
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8U | length_bytes[i];
  if (length > kLargestHeader) {
    fail(cat(path, ": not a safetensors file (its header would have ", length, " bytes; at most ",
             kLargestHeader, " are allowed)"));
  }
  if (length > size - 8) {
    fail(cat(path, ": the header has ", length, " bytes but the file ends after ", size - 8,
             "; it is truncated"));
  }
  std::string text(length, '\0');
  f.file_.read(8, text.data(), length);
  if (text.empty() || text.front() != '{') {
    fail(cat(path, ": not a safetensors file (its header does not begin with '{')"));
  }
  const std::string where = path + ": header";
  const Value header = parse_json(text, where);
  const std::uint64_t data_bytes = size - 8 - length;

  std::vector<std::pair<TensorInfo, std::uint64_t>> found;  // with the end of the data
  for (const auto& [name, value] : header.as_object()) {
    if (name == "__metadata__") {
      if (!value.is_object()) fail(cat(where, ": __metadata__ is not an object"));
      for (const auto& [key, text_value] : value.as_object()) {
        if (!text_value.is_string()) {
          fail(cat(where, ": __metadata__ \"", key, "\" is not a string"));
        }
        f.metadata_.emplace_back(key, text_value.as_string());
      }
      continue;
    }
    std::uint64_t end = 0;
    TensorInfo t = parse_tensor(path, name, value, data_bytes, end);
    found.emplace_back(std::move(t), end);
  }
  // Empty tensors first among those of equal begin, so that the chain below stays gapless.
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.offset, a.second) < std::pair(b.first.offset, b.second);
  });
  std::uint64_t expected = 0;
  for (auto& [t, end] : found) {
    if (t.offset != expected) {
      fail(cat(path, ": tensor ", t.name, ": begins at byte ", t.offset, " of the data, expected ",
               expected, t.offset > expected ? " (a hole)" : " (an overlap)"));
    }
    expected = end;
    t.offset += 8 + length;
    f.index_.emplace(t.name, f.tensors_.size());
    f.tensors_.push_back(std::move(t));
  }
  if (expected != data_bytes) {
    fail(cat(path, ": ", data_bytes - expected, " bytes follow the last tensor's data"));
  }
  return f;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto it = index_.find(std::string(name));
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  const TensorInfo* t = find(name);
  if (t == nullptr) fail(cat(path(), ": there is no tensor ", name));
  return *t;
}

void SafetensorsFile::read_bytes(const TensorInfo& tensor, std::uint64_t first, void* dst,
                                 std::size_t bytes) const {
  check(first + bytes <= tensor.bytes(), "read_bytes: beyond the end of the tensor");
  file_.read(tensor.offset + first, dst, bytes);
}

void SafetensorsFile::read_elements(const TensorInfo& tensor, std::int64_t first, std::int64_t n,
                                    void* dst, DType dtype) const {
  const std::size_t size = size_of(tensor.dtype);
  if (tensor.dtype == dtype) {
    return read_bytes(tensor, static_cast<std::uint64_t>(first) * size, dst,
                      static_cast<std::size_t>(n) * size);
  }
  std::vector<std::byte> raw(static_cast<std::size_t>(std::min(n, kChunk)) * size);
  in_chunks(n, [&](std::int64_t at, std::int64_t count) {
    read_bytes(tensor, static_cast<std::uint64_t>(first + at) * size, raw.data(),
               static_cast<std::size_t>(count) * size);
    try {
      convert_elements(raw.data(), tensor.dtype,
                       static_cast<std::byte*>(dst) + static_cast<std::size_t>(at) * size_of(dtype),
                       dtype, count);
    } catch (const Error& e) {
      fail(cat(path(), ": tensor ", tensor.name, ": ", e.what()));
    }
  });
}

void SafetensorsFile::read(std::string_view name, Tensor dst, void* stream) const {
  const TensorInfo& t = at(name);
  const bool scalar = t.shape.empty() && dst.rank == 1 && dst.size(0) == 1;
  bool same = dst.rank == static_cast<int>(t.shape.size());
  for (int d = 0; same && d < dst.rank; ++d)
    same = dst.size(d) == t.shape[static_cast<std::size_t>(d)];
  if (!same && !scalar) {
    fail(cat(path(), ": tensor ", name, ": expected shape ", dst.shape_string(), ", found ",
             t.shape_string()));
  }
  check(dst.contiguous(), "reading a tensor needs contiguous memory");
  if (dst.device == Device::kMeta) return;
  if (dst.device == Device::kCpu) return read_elements(t, 0, t.count(), dst.data, dst.dtype);
  const std::size_t size = size_of(dst.dtype);
  Buffer staging(static_cast<std::size_t>(std::min(t.count(), kChunk)) * size, Device::kCpu);
  in_chunks(t.count(), [&](std::int64_t first, std::int64_t n) {
    read_elements(t, first, n, staging.data(), dst.dtype);
    auto* to = static_cast<std::byte*>(dst.data) + static_cast<std::size_t>(first) * size;
    copy_bytes(Tensor::dense(to, {n}, dst.dtype, dst.device),
               Tensor::dense(staging.data(), {n}, dst.dtype, Device::kCpu), stream);
  });
}

}  // namespace glmtune::io
