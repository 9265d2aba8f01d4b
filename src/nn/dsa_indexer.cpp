#include "nn/dsa_indexer.h"

#include <algorithm>
#include <cmath>

#include "ops/indexer.h"
#include "ops/norm.h"

namespace glmtune::nn {
namespace {

// Queries scored at once: bounds the score matrix (no T×T tensor) to about 16 M entries.
std::int64_t query_tile(std::int64_t keys) {
  return std::clamp<std::int64_t>((std::int64_t{1} << 24) / keys, 64, 4096);
}

}  // namespace

Selection DsaIndexer::allocate(Arena& arena, const PackedRow& row) const {
  Selection s;
  if (row.masked.count > 0)
    s.mask = arena.make({row.tokens, (row.masked_max_length + 31) / 32}, DType::kU32);
  if (row.gather_rows > 0) {
    std::int64_t longest = 0;
    for (const RowRange& r : row.gather) longest = std::max(longest, r.size());
    s.indices = arena.make({row.gather_rows, std::min(index_topk, longest)}, DType::kI32);
    s.counts = arena.make({row.gather_rows}, DType::kI32);
  }
  return s;
}

void DsaIndexer::select(Context& ctx, const Selection& selection, Tensor q_res, Tensor h,
                        const PackedRow& row) const {
  const auto masked = static_cast<std::size_t>(row.masked.count);
  std::int64_t gather_row = 0;
  for (std::size_t d = 0; d < row.selecting.size(); ++d) {
    const RowRange doc = row.selecting[d];
    const bool gathers = d >= masked;
    select_document(ctx, selection, q_res, h, row, doc, gathers ? gather_row : -1);
    if (gathers) gather_row += doc.size();
  }
}

void DsaIndexer::select_document(Context& ctx, const Selection& selection, Tensor q_res, Tensor h,
                                 const PackedRow& row, RowRange doc,
                                 std::int64_t gather_row) const {
  const Scope scope(*ctx.scratch);
  Arena& scratch = *ctx.scratch;
  const std::int64_t n = doc.size(), I = index_n_heads, D = index_head_dim;
  const DType dtype = h.dtype;
  const bool scored = n > index_topk;  // otherwise every query sees all its keys (forced paths)

  Tensor q, k, w;
  if (scored) {
    const Tensor positions = row.positions.rows(doc.begin, doc.end);
    const Tensor h_doc = h.rows(doc.begin, doc.end);
    q = scratch.make({n, I * D}, dtype);
    k = scratch.make({n, D}, dtype);
    w = scratch.make({n, I}, wide(dtype));
    const Tensor k_raw = scratch.make({n, D}, dtype), mean = scratch.make({n}, wide(dtype)),
                 rstd = scratch.make({n}, wide(dtype));
    wq_b.forward(ctx, q, q_res.rows(doc.begin, doc.end), nullptr);
    q = q.reshape({n, I, D});
    wk.forward(ctx, k_raw, h_doc, nullptr);
    run(ctx, ops::LayerNorm{.y = k,
                            .mean = mean,
                            .rstd = rstd,
                            .x = k_raw,
                            .weight = k_norm_weight.value,
                            .bias = k_norm_bias.value,
                            .eps = k_norm_eps});
    weights_proj.forward(ctx, w, h_doc, nullptr);
    // The indexer rotates its first qk_rope_head_dim values; MLA rotates its last ones.
    for (const Tensor& x : {q, k.reshape({n, 1, D})})
      run(ctx, ops::Rope{.x = x.slice(2, 0, qk_rope_head_dim),
                         .positions = positions,
                         .theta = rope_theta,
                         .layout = rope_layout});
  }

  const std::int64_t tile = std::min(n, query_tile(n));
  const Tensor scores = scratch.make({tile, n}, wide(dtype));
  for (std::int64_t begin = 0; begin < n; begin += tile) {
    const std::int64_t end = std::min(n, begin + tile);
    const Tensor tile_scores = scores.rows(0, end - begin);
    if (scored && end > index_topk)
      run(ctx, ops::IndexScores{.scores = tile_scores,
                                .q = q.rows(begin, end),
                                .k = k,
                                .weights = w.rows(begin, end),
                                .scale = 1.0 / std::sqrt(static_cast<double>(D)),
                                .weight_scale = 1.0 / std::sqrt(static_cast<double>(I)),
                                .query_begin = begin});
    ops::TopkSelect topk{.mask = {},
                         .indices = {},
                         .counts = {},
                         .scores = tile_scores,
                         .k = index_topk,
                         .query_begin = begin};
    if (gather_row >= 0) {
      topk.indices = selection.indices.rows(gather_row + begin, gather_row + end);
      topk.counts = selection.counts.rows(gather_row + begin, gather_row + end);
    } else {
      topk.mask = selection.mask.rows(doc.begin + begin, doc.begin + end);
    }
    run(ctx, topk);
  }
}

}  // namespace glmtune::nn
