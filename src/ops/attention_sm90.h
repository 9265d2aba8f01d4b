#pragma once
// The tensor-core versions of dense attention for BF16 with sizes 192 + 64 / 256 (attention_*_sm90
// .cu): which operands they take and the device scratch they need. No CUDA types.
#include <algorithm>

#include "ops/attention.h"

namespace glmtune::ops::sm90 {

inline constexpr std::int64_t kNope = 192, kRope = 64, kHead = 256;
inline constexpr std::int64_t kQueryTile = 128;  // query rows a block: forward, dq
inline constexpr std::int64_t kKeyTile = 64;     // key rows a block: dk, dv
inline constexpr std::int64_t kTileBytes = 16;   // one entry of a work list (sm90::Span)

inline std::int64_t round_up(std::int64_t x, std::int64_t to) {
  return (x + to - 1) / to * to;
}

inline constexpr std::int64_t kCounterBytes = 256;  // before the first list

// By dtype and sizes alone, so that a dry run and a run agree.
inline bool sizes_fit(const Tensor& q, const Tensor& k_nope, const Tensor& k_rope,
                      const Tensor& v) {
  return q.dtype == DType::kBF16 && q.size(2) == kHead && k_nope.size(2) == kNope &&
         k_rope.size(1) == kRope && v.size(2) == kHead;
}

// A backward's scratch on a device: what the tensor-core kernels take where they fit; at least the
// generic kernels' Δ [T, H], which rows that the copy engine cannot address fall back to.
inline std::size_t device_scratch(const Tensor& q, bool fits, std::int64_t bytes) {
  const std::int64_t delta = q.size(0) * q.size(1) * 4;
  return static_cast<std::size_t>(fits ? std::max(delta, bytes) : delta);
}

// Tiles of `rows` rows that cover the documents; rows of documents padded to whole tiles.
inline std::int64_t tile_count(const Documents& documents, std::int64_t rows) {
  std::int64_t n = 0;
  for (std::int64_t d = 0; d < documents.count; ++d)
    n += (documents.host[2 * d + 1] - documents.host[2 * d] + rows - 1) / rows;
  return n;
}

// Most tiles that so many documents of so many tokens have. Workspaces are counted by it, so that
// documents with fewer tokens, and no more of them, never take more.
inline std::int64_t most_tiles(const Documents& documents, std::int64_t rows) {
  std::int64_t tokens = 0;
  for (std::int64_t d = 0; d < documents.count; ++d)
    tokens += documents.host[2 * d + 1] - documents.host[2 * d];
  return (tokens + documents.count * (rows - 1)) / rows;
}

inline constexpr std::int64_t kRopePartsBytes = std::int64_t{160} << 20;

// Heads whose rope-key gradients one block sums before it writes them. Few, so that the blocks that
// run together read the queries of few heads (L2), and enough items to keep every multiprocessor
// busy to the end; more where the parts would take too much memory.
inline std::int64_t heads_per_item(std::int64_t key_tiles, std::int64_t heads) {
  const std::int64_t bytes = heads * key_tiles * kKeyTile * kRope * 4;
  std::int64_t g = 1;
  while (g < 8 && heads % (2 * g) == 0 && bytes / g > kRopePartsBytes) g *= 2;
  return g;
}

inline std::size_t forward_workspace(const CausalAttention& op) {
  return static_cast<std::size_t>(kCounterBytes +
                                  most_tiles(op.documents, kQueryTile) * kTileBytes);
}

// Parts of the backward's scratch, in order; all 256-byte aligned.
struct BackwardScratch {
  std::int64_t query_tiles, key_tiles, padded_rows, group, query_list, key_list, lse, delta, rope,
      bytes;
  BackwardScratch(std::int64_t query_tile_count, std::int64_t key_tile_count, std::int64_t heads)
      : query_tiles(query_tile_count),
        key_tiles(key_tile_count),
        padded_rows(key_tiles * kKeyTile),
        group(heads_per_item(key_tiles, heads)),
        query_list(kCounterBytes),
        key_list(query_list + round_up(query_tiles * kTileBytes, 256)),
        lse(key_list + round_up(key_tiles * kTileBytes, 256)),
        delta(lse + heads * padded_rows * 4),
        rope(delta + heads * padded_rows * 4),
        bytes(rope + heads / group * padded_rows * kRope * 4) {}
};
inline BackwardScratch backward_scratch(const CausalAttentionBackward& op) {
  return {tile_count(op.documents, kQueryTile), tile_count(op.documents, kKeyTile), op.q.size(1)};
}

// Where heads are summed in groups, fewer tiles may take more, up to what ungrouped parts may.
inline std::int64_t backward_workspace(const CausalAttentionBackward& op) {
  const BackwardScratch s(most_tiles(op.documents, kQueryTile), most_tiles(op.documents, kKeyTile),
                          op.q.size(1));
  return s.group > 1 ? std::max(s.bytes, s.rope + kRopePartsBytes) : s.bytes;
}

}  // namespace glmtune::ops::sm90
