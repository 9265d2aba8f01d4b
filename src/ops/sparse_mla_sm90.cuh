#pragma once
// Gathering of key rows [latent | k_rope] for the sparse attention kernels on sm_90a.
#include <cuda.h>

#include "ops/attention_sm90.cuh"

namespace glmtune::ops::sm90 {

struct SparseKeys {
  const __nv_bfloat16 *latent, *k_rope;
  std::int64_t latent_row, rope_row;
  const std::int32_t *indices, *counts;
  std::int64_t indices_row;
};

template <class Op>
SparseKeys keys_of(const Op& op) {
  return {.latent = op.latent.template as<__nv_bfloat16>(),
          .k_rope = op.k_rope.template as<__nv_bfloat16>(),
          .latent_row = op.latent.stride(0),
          .rope_row = op.k_rope.stride(0),
          .indices = op.indices.template as<std::int32_t>(),
          .counts = op.counts.template as<std::int32_t>(),
          .indices_row = op.indices.stride(0)};
}

// [T, 64 heads, size]: all heads of one token, 64 columns at a time.
inline CUtensorMap token_map(const Tensor& t) {
  return make_tensor_map(TensorMapType::kBF16, t.data, {t.size(2), t.size(1), t.size(0)},
                         {t.stride(1), t.stride(0)}, {64, 64, 1}, TensorMapSwizzle::k128);
}

inline constexpr int kGatherKeys = 64;                  // a block of keys
inline constexpr int kGatherPanel = kGatherKeys * 128;  // 64 of its columns
inline constexpr int kGatherBytes = 9 * kGatherPanel;

// One warpgroup: rows [first, first + 64) of query t's list into nine swizzled panels, zeros behind
// the list's end; returns when they are there and the tensor cores may read them. Eight lanes a
// row.
__device__ __forceinline__ void gather_keys(const SparseKeys& k, std::int64_t t, int first,
                                            int count, char* tile) {
  const int thread = threadIdx.x % 128, piece = thread % 8;
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    const int row = g * 16 + thread / 8;
    const bool valid = first + row < count;
    const std::int64_t j = valid ? k.indices[t * k.indices_row + first + row] : 0;
    const __nv_bfloat16* latent = k.latent + j * k.latent_row + piece * 8;
    char* to =
        tile + swizzle_128(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(piece * 16));
#pragma unroll
    for (int c = 0; c < 8; ++c) cp_async_16(to + c * kGatherPanel, latent + c * 64, valid);
    cp_async_16(to + 8 * kGatherPanel, k.k_rope + j * k.rope_row + piece * 8, valid);
  }
  cp_async_commit();
  cp_async_wait<0>();
  fence_async_shared();
}

}  // namespace glmtune::ops::sm90
