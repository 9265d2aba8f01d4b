#pragma once
// The device's share of the norms' workspaces: rows of partial weight gradients, one a block.
#include <cstddef>
#include <cstdint>

namespace glmtune::ops {

// Blocks of the backward kernels: up to four on each of an H200's 132 multiprocessors, two where
// rows are wide.
constexpr std::int64_t norm_partials(std::int64_t columns) {
  return columns <= 2048 ? 528 : 264;
}

constexpr std::size_t norm_partial_bytes(std::int64_t columns, int gradients) {
  return static_cast<std::size_t>(norm_partials(columns) * columns * gradients) * sizeof(float);
}

}  // namespace glmtune::ops
