#pragma once
// The tensor-core versions of gathered attention for BF16, 64 heads and sizes 512 + 64
// (sparse_mla_*_sm90.cu): which operands they take and their device scratch. No CUDA types.
#include <algorithm>

#include "ops/attention_sm90.h"

namespace glmtune::ops::sm90 {

inline constexpr std::int64_t kLatent = 512, kLatentRope = 64, kSparseHeads = 64;
inline constexpr std::int64_t kLatentRow = kLatent + kLatentRope;
// Queries whose per-pair gradient rows are in memory at a time: two for each of 132
// multiprocessors.
inline constexpr std::int64_t kQueryChunk = 264;

inline bool sparse_sizes_fit(const Tensor& q_latent, const Tensor& k_rope, const Tensor& indices) {
  return q_latent.dtype == DType::kBF16 && q_latent.size(1) == kSparseHeads &&
         q_latent.size(2) == kLatent && k_rope.size(1) == kLatentRope && indices.size(1) < 65535;
}

// Parts of the backward's scratch, in order; all 256-byte aligned.
struct SparseScratch {
  std::int64_t chunk, delta, sums, slots, rows, bytes;
};
inline SparseScratch sparse_scratch(const SparseMlaBackward& op) {
  const auto aligned = [](std::int64_t x) { return (x + 255) / 256 * 256; };
  const std::int64_t queries = op.q_latent.size(0), keys = op.latent.size(0);
  SparseScratch s{};
  s.chunk = std::min(queries, kQueryChunk);
  s.delta = 0;                                                 // F32 [2, T, 64]: Δ, lse
  s.sums = s.delta + aligned(2 * queries * kSparseHeads * 4);  // F32 [S, 576]
  s.slots = s.sums + aligned(keys * kLatentRow * 4);           // U16 [S, chunk]
  s.rows = s.slots + aligned(keys * s.chunk * 2);              // BF16 [chunk, K, 576]
  s.bytes = s.rows + aligned(s.chunk * op.indices.size(1) * kLatentRow * 2);
  return s;
}

}  // namespace glmtune::ops::sm90
