#pragma once
// What the two kernels of the dense attention backward share.
#include <cuda.h>

#include "ops/attention.h"
#include "ops/attention_sm90.cuh"

namespace glmtune::ops::sm90 {

struct BackwardMaps {
  CUtensorMap q, k_nope, k_rope, v, dout;
};

struct BackwardArguments {
  const Span* spans;
  int* counter;
  int items, heads, group;  // group: heads a block works through for one key tile
  std::int64_t padded_rows;
  const float *lse, *delta;  // [H, padded_rows]; lse in units of log 2
  float* rope;               // [H / group, padded_rows, 64]
  const std::uint32_t* mask;
  std::int64_t mask_row;
  int mask_words;
  __nv_bfloat16 *dq, *dk, *dv;
  std::int64_t dq_row, dq_head, dk_row, dk_head, dv_row, dv_head;
  float scale, scale_log2;
};

inline BackwardMaps backward_maps(const CausalAttentionBackward& op, int query_rows, int key_rows) {
  return {head_map(op.q, query_rows), head_map(op.k_nope, key_rows), row_map(op.k_rope, key_rows),
          head_map(op.v, key_rows), head_map(op.dout, query_rows)};
}

__device__ __forceinline__ void load_head(char* tile, int panel, const CUtensorMap& map,
                                          std::uint64_t* bar, int head, int row) {
  for (int c = 0; c < 4; ++c) tma_load_3d(tile + c * panel, &map, bar, c * 64, head, row);
}
__device__ __forceinline__ void load_keys(char* tile, int panel, const BackwardMaps& maps,
                                          std::uint64_t* bar, int head, int row) {
  for (int c = 0; c < 3; ++c) tma_load_3d(tile + c * panel, &maps.k_nope, bar, c * 64, head, row);
  tma_load_2d(tile + 3 * panel, &maps.k_rope, bar, 0, row);
}

// dq for the items of `a`: tiles of kQueryTile rows times heads.
void backward_queries(cudaStream_t stream, const CausalAttentionBackward& op,
                      const BackwardArguments& a);

}  // namespace glmtune::ops::sm90
