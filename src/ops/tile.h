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

// dst[c, r] = factor · src[r, c]; columns [rows, ld) of dst are zeroed.
template <class T, class W>
void pack_transposed(W* dst, std::int64_t ld, const T* src, std::int64_t src_stride,
                     std::int64_t rows, std::int64_t cols, W factor) {
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t r = 0; r < rows; ++r)
      dst[c * ld + r] = factor * static_cast<W>(src[r * src_stride + c]);
    for (std::int64_t r = rows; r < ld; ++r) dst[c * ld + r] = W(0);
  }
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
      const VecOf<W> x = VecOf<W>{} + al[i * a.row];
      for (int v = 0; v < V; ++v) multiply_add(acc[i][v], x, bv[v]);
    }
  }
  for (int i = 0; i < M; ++i)
    for (int v = 0; v < V; ++v) vec(c + i * ldc + v * kLanes) = acc[i][v];
}

template <bool kAdd, int V, class W>
void tile_columns(W* c, std::int64_t ldc, TileFactor<W> a, const W* b, std::int64_t ldb,
                  std::int64_t rows, std::int64_t depth) {
  constexpr int kRows = 6;  // 6 × 2 accumulators + 2 of b + 1 of a fill the 16 registers of AVX2
  std::int64_t i = 0;
  for (; i + kRows <= rows; i += kRows, c += kRows * ldc, a.data += kRows * a.row)
    tile_block<kAdd, kRows, V>(c, ldc, a, b, ldb, depth);
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
