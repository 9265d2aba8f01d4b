#pragma once
// A tensor of any rank seen as rows of its innermost dimension, for the CPU versions of the ops.
#include "tensor/tensor.h"

namespace glmtune::ops {

// Below this many elements a parallel region costs more than it gives.
inline constexpr std::int64_t kParallelElements = 1 << 14;

template <class T>
struct RowsOf {
  explicit RowsOf(const Tensor& t) : base(t.as<T>()), columns(t.rank > 0 ? t.size(-1) : 0) {
    rows = columns > 0 ? t.count() / columns : 0;
    for (int d = t.rank - 2, k = 2; d >= 0; --d, --k) {
      n[static_cast<std::size_t>(k)] = t.size(d);
      stride[static_cast<std::size_t>(k)] = t.stride(d);
    }
  }
  T* operator[](std::int64_t r) const {
    const std::int64_t k = r % n[2], j = r / n[2] % n[1], i = r / n[2] / n[1];
    return base + i * stride[0] + j * stride[1] + k * stride[2];
  }

  T* base;
  std::int64_t columns;
  std::int64_t rows = 0;
  std::array<std::int64_t, 3> n{1, 1, 1}, stride{};
};

}  // namespace glmtune::ops
