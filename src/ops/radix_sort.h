#pragma once
// Stable sort of small integer keys on the device: ExpertSort and EmbeddingBackward are built on
// it.
#include <cstddef>
#include <cstdint>

namespace glmtune::ops {

// Keys a block of the sort handles.
inline constexpr std::int64_t kSortTile = 2048;

constexpr std::int64_t sort_tiles(std::int64_t n) {
  return (n + kSortTile - 1) / kSortTile;
}

// Two buffers of keys and of indices, and a histogram of 256 digits for every tile.
constexpr std::size_t radix_sort_bytes(std::int64_t n) {
  const std::int64_t padded = sort_tiles(n) * kSortTile;
  return static_cast<std::size_t>(4 * padded + 256 * sort_tiles(n) + 256) * sizeof(std::int32_t);
}

}  // namespace glmtune::ops
