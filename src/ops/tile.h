#pragma once
// Small dense blocks in the arithmetic type W (float or double): packing from strided storage and
// the products between them. Row lengths ("ld") are whole vectors; the columns that pad a row are
// computed like the others and mean nothing unless a function says that it zeroes them.
#include <algorithm>
#include <cstdint>

#include "ops/simd.h"

namespace glmtune::ops {

// Below this many multiply-adds a parallel region costs more than it gives.
inline constexpr std::int64_t kParallelWork = 1 << 18;

// dst[r, :cols] = src[r, :cols], converted.
template <class T, class W>
void pack_rows(W* dst, std::int64_t ld, const T* src, std::int64_t src_stride, std::int64_t rows,
               std::int64_t cols) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      dst[r * ld + c] = static_cast<W>(src[r * src_stride + c]);
}

// Zeroes columns [from, ld) of each row.
template <class W>
void zero_columns(W* dst, std::int64_t ld, std::int64_t rows, std::int64_t from) {
  for (std::int64_t r = 0; r < rows; ++r) std::fill(dst + r * ld + from, dst + (r + 1) * ld, W(0));
}

// dst[c, r] = factor · src[r, c]; columns [rows, ld) of dst are zeroed. A few source rows at a
// time: their cache lines are used up before others, often of the same cache sets, take their
// place.
template <class T, class W>
void pack_transposed(W* __restrict dst, std::int64_t ld, const T* __restrict src,
                     std::int64_t src_stride, std::int64_t rows, std::int64_t cols, W factor) {
  constexpr std::int64_t kLanes = Simd<W>::kLanes;
  std::int64_t r = 0;
  for (; r + kLanes <= rows; r += kLanes, src += kLanes * src_stride)
    for (std::int64_t c = 0; c < cols; ++c)
      for (std::int64_t i = 0; i < kLanes; ++i)
        dst[c * ld + r + i] = factor * static_cast<W>(src[i * src_stride + c]);
  for (std::int64_t c = 0; c < cols; ++c)
    for (std::int64_t i = 0; r + i < ld; ++i)
      dst[c * ld + r + i] = r + i < rows ? factor * static_cast<W>(src[i * src_stride + c]) : W(0);
}

// Σ a[i] b[i], in one partial sum per lane.
template <class T, class W>
W dot(const W* a, const T* b, std::int64_t n) {
  constexpr std::int64_t kLanes = Simd<W>::kLanes;
  W partial[kLanes] = {};
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes)
    for (std::int64_t i = 0; i < kLanes; ++i) partial[i] += a[c + i] * static_cast<W>(b[c + i]);
  for (std::int64_t i = 0; c + i < n; ++i) partial[i] += a[c + i] * static_cast<W>(b[c + i]);
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2)
    for (std::int64_t i = 0; i < width; ++i) partial[i] += partial[i + width];
  return partial[0];
}

// The left factor of a product, either way round: element (i, l) is data[i·row + l·col].
template <class W>
struct TileFactor {
  const W* data;
  std::int64_t row, col;
};

namespace detail {

// M rows and V vectors of c stay in registers over the whole sum, which runs in the order of l:
// an element's value does not depend on the block it falls into.
template <bool kAdd, int M, int V, class W>
[[gnu::always_inline]] inline void tile_block(W* c, std::int64_t ldc, const TileFactor<W>& a,
                                              const W* b, std::int64_t ldb, std::int64_t depth) {
  constexpr std::int64_t kLanes = Simd<W>::kLanes;
  VecOf<W> acc[M][V];
  for (int i = 0; i < M; ++i)
    for (int v = 0; v < V; ++v) acc[i][v] = kAdd ? vec(c + i * ldc + v * kLanes) : VecOf<W>{};
  const W* al = a.data;
  for (std::int64_t l = 0; l < depth; ++l, al += a.col, b += ldb) {
    VecOf<W> bv[V];
    for (int v = 0; v < V; ++v) bv[v] = vec(b + v * kLanes);
    for (int i = 0; i < M; ++i) {
      VecOf<W> x;
      broadcast(x, al[i * a.row]);
      for (int v = 0; v < V; ++v) multiply_add(acc[i][v], x, bv[v]);
    }
  }
  for (int i = 0; i < M; ++i)
    for (int v = 0; v < V; ++v) vec(c + i * ldc + v * kLanes) = acc[i][v];
}

template <bool kAdd, int V, class W>
void tile_columns(W* c, std::int64_t ldc, TileFactor<W> a, const W* b, std::int64_t ldb,
                  std::int64_t rows, std::int64_t depth) {
  // 6 × 2 accumulators, 2 vectors of b and 1 of a fill the 16 registers of AVX2; 12 × 1, so that a
  // single vector of columns has enough sums in flight, too.
  std::int64_t i = 0;
  if constexpr (V == 1)
    for (; i + 12 <= rows; i += 12, c += 12 * ldc, a.data += 12 * a.row)
      tile_block<kAdd, 12, V>(c, ldc, a, b, ldb, depth);
  for (; i + 6 <= rows; i += 6, c += 6 * ldc, a.data += 6 * a.row)
    tile_block<kAdd, 6, V>(c, ldc, a, b, ldb, depth);
  switch (rows - i) {
    case 5:
      return tile_block<kAdd, 5, V>(c, ldc, a, b, ldb, depth);
    case 4:
      return tile_block<kAdd, 4, V>(c, ldc, a, b, ldb, depth);
    case 3:
      return tile_block<kAdd, 3, V>(c, ldc, a, b, ldb, depth);
    case 2:
      return tile_block<kAdd, 2, V>(c, ldc, a, b, ldb, depth);
    case 1:
      return tile_block<kAdd, 1, V>(c, ldc, a, b, ldb, depth);
    default:
      return;
  }
}

}  // namespace detail

// c[rows, cols] = a · b, or c += a · b where kAdd; b is [depth, cols]. Columns up to the next whole
// vector are read and written too.
template <bool kAdd, class W>
void tile_product(W* c, std::int64_t ldc, TileFactor<W> a, const W* b, std::int64_t ldb,
                  std::int64_t rows, std::int64_t cols, std::int64_t depth) {
  constexpr std::int64_t kLanes = Simd<W>::kLanes;
  std::int64_t j = 0;
  for (; j + kLanes < cols; j += 2 * kLanes)
    detail::tile_columns<kAdd, 2>(c + j, ldc, a, b + j, ldb, rows, depth);
  if (j < cols) detail::tile_columns<kAdd, 1>(c + j, ldc, a, b + j, ldb, rows, depth);
}

// Cuts one thread's part of a workspace into blocks of whole cache lines. Constructed without
// memory it only counts.
template <class W>
class TileScratch {
 public:
  explicit TileScratch(std::byte* memory) : memory_(memory) {}

  W* take(std::int64_t count) {
    W* block = memory_ == nullptr ? nullptr : reinterpret_cast<W*>(memory_ + used_);
    used_ += (static_cast<std::size_t>(count) * sizeof(W) + 63) / 64 * 64;
    return block;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

}  // namespace glmtune::ops
