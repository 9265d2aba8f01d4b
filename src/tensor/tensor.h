#pragma once
// Tensor: a non-owning strided view of at most four dimensions; the innermost stride is 1.
// Buffer: an owner of memory on one device. Arena, Scope: stack allocation (tensor/arena.h).
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "tensor/dtype.h"

namespace glmtune {

// kMeta: shapes and memory only, nothing is computed (the dry run).
enum class Device : std::uint8_t { kCpu, kCuda, kMeta };

using Shape = std::initializer_list<std::int64_t>;

struct Tensor {
  void* data = nullptr;
  std::array<std::int64_t, 4> sizes{};
  std::array<std::int64_t, 4> strides{};  // in elements; strides[rank - 1] == 1
  int rank = 0;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;

  // A dense row-major view over existing memory.
  static Tensor dense(void* data, Shape shape, DType dtype, Device device);

  std::int64_t size(int d) const { return sizes[index(d)]; }
  std::int64_t stride(int d) const { return strides[index(d)]; }
  std::int64_t count() const;
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }
  bool defined() const { return rank > 0; }  // false for an operand that is absent: `.bias = {}`
  bool contiguous() const;
  bool same_shape(const Tensor& other) const;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  // Address of row i (of the outermost dimension).
  template <class T>
  T* row(std::int64_t i) const {
    return static_cast<T*>(data) + i * strides[0];
  }

  Tensor slice(int d, std::int64_t begin, std::int64_t end) const;  // [begin, end) of dimension d
  Tensor rows(std::int64_t begin, std::int64_t end) const { return slice(0, begin, end); }
  Tensor reshape(Shape shape) const;           // contiguous views only
  Tensor transpose(int a, int b) const;        // neither may be the innermost dimension
  Tensor select(int d, std::int64_t i) const;  // drops dimension d (not the innermost)
  std::string shape_string() const;            // "[3, 4] BF16"

 private:
  std::size_t index(int d) const { return static_cast<std::size_t>(d < 0 ? rank + d : d); }
};

// Raw memory of one device; zero-sized on the meta device. CPU memory is 256-byte aligned.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t bytes, Device device);  // throws MachineError when there is not enough memory
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  Device device() const { return device_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_ = Device::kMeta;
};

// A tensor that owns its memory (zeroed).
struct OwnedTensor {
  Buffer buffer;
  Tensor view;

  OwnedTensor() = default;
  OwnedTensor(Shape shape, DType dtype, Device device);
  operator Tensor() const { return view; }
};

// Bytes between host and device memory or within one; views of one shape and dtype, contiguous.
// `stream`: CUDA's, null: the default one. A copy to or from the host is done when it returns.
void copy_bytes(Tensor dst, Tensor src, void* stream = nullptr);
void zero_bytes(Tensor dst, void* stream = nullptr);

}  // namespace glmtune
