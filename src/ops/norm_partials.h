#pragma once
// The device's share of the norms' workspaces: rows of partial weight gradients, one a block.
#include <cstddef>
#include <cstdint>

namespace glmtune::ops {

// Four blocks on each of an H200's 132 multiprocessors; narrow rows: four warps in each block.
constexpr std::int64_t norm_partials(std::int64_t columns) {
  return columns <= 1024 ? 2112 : 528;
}

constexpr std::size_t norm_partial_bytes(std::int64_t columns, int gradients) {
  return static_cast<std::size_t>(norm_partials(columns) * columns * gradients) * sizeof(float);
}

}  // namespace glmtune::ops
