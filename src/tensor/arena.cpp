#include "tensor/arena.h"

#include <algorithm>

#include "base/cat.h"

namespace glmtune {
namespace {
constexpr std::size_t kAlignment = 256;
}

Arena::Arena(std::size_t capacity, Device device)
    : buffer_(capacity, device), capacity_(capacity) {}

Tensor Arena::make(Shape shape, DType dtype) {
  Tensor t = Tensor::dense(nullptr, shape, dtype, buffer_.device());
  const std::size_t bytes = (t.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes > capacity_ - top_)
    fail(cat("arena is full: ", t.shape_string(), " wanted, ", capacity_ - top_, " of ", capacity_,
             " bytes left"));
  if (buffer_.data() != nullptr) t.data = buffer_.data() + top_;
  top_ += bytes;
  peak_ = std::max(peak_, top_);
  return t;
}

}  // namespace glmtune
