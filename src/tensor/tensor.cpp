#include "tensor/tensor.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/cat.h"
#include "tensor/memory_backend.h"

namespace glmtune {

Tensor Tensor::dense(void* data, Shape shape, DType dtype, Device device) {
  check(shape.size() <= 4, "a tensor has at most four dimensions");
  Tensor t;
  t.data = data;
  t.dtype = dtype;
  t.device = device;
  t.rank = static_cast<int>(shape.size());
  std::size_t i = 0;
  for (const std::int64_t s : shape) t.sizes[i++] = s;
  std::int64_t stride = 1;
  while (i-- > 0) {
    t.strides[i] = stride;
    stride *= t.sizes[i];
  }
  return t;
}

std::int64_t Tensor::count() const {
  std::int64_t n = 1;
  for (int d = 0; d < rank; ++d) n *= size(d);
  return n;
}

bool Tensor::contiguous() const {
  std::int64_t expected = 1;
  for (int d = rank - 1; d >= 0; --d) {
    if (size(d) != 1 && stride(d) != expected) return false;
    expected *= size(d);
  }
  return true;
}

bool Tensor::same_shape(const Tensor& other) const {
  if (rank != other.rank) return false;
  for (int d = 0; d < rank; ++d)
    if (size(d) != other.size(d)) return false;
  return true;
}

Tensor Tensor::slice(int d, std::int64_t begin, std::int64_t end) const {
  const std::size_t i = index(d);
  if (begin < 0 || end < begin || end > sizes[i])
    fail(cat("slice [", begin, ", ", end, ") of dimension ", d, " of ", shape_string()));
  Tensor t = *this;
  t.sizes[i] = end - begin;
  if (t.data != nullptr)
    t.data = static_cast<std::byte*>(data) +
             static_cast<std::size_t>(begin * strides[i]) * size_of(dtype);
  return t;
}

Tensor Tensor::reshape(Shape shape) const {
  Tensor t = dense(data, shape, dtype, device);
  if (!contiguous() || t.count() != count())
    fail(cat("cannot reshape ", shape_string(), contiguous() ? "" : " (strided)", " to ",
             t.shape_string()));
  return t;
}

Tensor Tensor::transpose(int a, int b) const {
  check(a != rank - 1 && b != rank - 1, "transpose: the innermost dimension stays innermost");
  Tensor t = *this;
  std::swap(t.sizes[index(a)], t.sizes[index(b)]);
  std::swap(t.strides[index(a)], t.strides[index(b)]);
  return t;
}

Tensor Tensor::select(int d, std::int64_t i) const {
  Tensor t = slice(d, i, i + 1);
  for (std::size_t k = index(d); k + 1 < static_cast<std::size_t>(rank); ++k) {
    t.sizes[k] = t.sizes[k + 1];
    t.strides[k] = t.strides[k + 1];
  }
  --t.rank;
  return t;
}

std::string Tensor::shape_string() const {
  std::string s = "[";
  for (int d = 0; d < rank; ++d) s += (d ? ", " : "") + std::to_string(size(d));
  return s + "] " + std::string(name_of(dtype));
}

Buffer::Buffer(std::size_t bytes, Device device) : size_(bytes), device_(device) {
  if (bytes == 0 || device == Device::kMeta) return;
  if (device == Device::kCuda) {
    data_ = static_cast<std::byte*>(cuda_memory::allocate(bytes));
    return;
  }
  data_ = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  if (data_ == nullptr) fail_machine(cat("out of memory: ", bytes, " bytes wanted"));
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (device_ == Device::kCuda)
    cuda_memory::release(data_);
  else
    std::free(data_);
}

OwnedTensor::OwnedTensor(Shape shape, DType dtype, Device device) {
  view = Tensor::dense(nullptr, shape, dtype, device);
  buffer = Buffer(view.bytes(), device);
  view.data = buffer.data();
  zero_bytes(view);
}

void copy_bytes(Tensor dst, Tensor src, void* stream) {
  if (!dst.same_shape(src) || dst.dtype != src.dtype || !dst.contiguous() || !src.contiguous())
    fail(cat("copy_bytes: ", dst.shape_string(), " from ", src.shape_string()));
  if (dst.device == Device::kMeta || src.device == Device::kMeta || dst.count() == 0) return;
  check(dst.data != nullptr && src.data != nullptr, "copy_bytes: a view has no memory");
  if (dst.device != Device::kCuda && src.device != Device::kCuda) {
    std::memcpy(dst.data, src.data, dst.bytes());
    return;
  }
  cuda_memory::copy(dst.data, src.data, dst.bytes(), stream);
  if (dst.device != src.device) cuda_memory::synchronize(stream);
}

void zero_bytes(Tensor dst, void* stream) {
  check(dst.contiguous(), "zero_bytes: the view is strided");
  if (dst.device == Device::kMeta || dst.count() == 0) return;
  check(dst.data != nullptr, "zero_bytes: the view has no memory");
  if (dst.device == Device::kCuda)
    cuda_memory::zero(dst.data, dst.bytes(), stream);
  else
    std::memset(dst.data, 0, dst.bytes());
}

}  // namespace glmtune
