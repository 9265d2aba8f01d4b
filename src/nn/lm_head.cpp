#include "nn/lm_head.h"

#include <algorithm>
#include <bit>

#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/rows.h"

namespace glmtune::nn {

std::int64_t LmHead::rows_for(std::int64_t vocab_size) {
  const auto rows = static_cast<std::uint64_t>((std::int64_t{1} << 29) / vocab_size);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_floor(rows)), 64, 4096);
}

void LmHead::run(Context& ctx, Tensor loss_sum, Tensor dh, const Linear& projection, Tensor h,
                 const PackedRow& row, double grad_scale) const {
  using glmtune::run;
  const bool backward = dh.defined();
  if (backward) run(ctx, ops::Fill{.x = dh, .value = 0});
  if (row.labels == 0) return;
  const Scope scope(*ctx.scratch);
  Arena& scratch = *ctx.scratch;
  const std::int64_t V = projection.weight.value.size(0), C = h.size(1);
  const std::int64_t chunk = std::min(chunk_rows, row.labels);
  const Tensor rows = scratch.make({chunk, C}, h.dtype);
  const Tensor logits = scratch.make({chunk, V}, h.dtype);
  const Tensor losses = scratch.make({row.labels}, wide(h.dtype));
  for (std::int64_t begin = 0; begin < row.labels; begin += chunk) {
    const std::int64_t end = std::min(row.labels, begin + chunk), n = end - begin;
    const Tensor x = rows.rows(0, n), z = logits.rows(0, n);
    const Tensor index = row.label_rows.rows(begin, end);
    run(ctx, ops::GatherRows{.y = x, .x = h, .index = index});
    projection.forward(ctx, z, x, nullptr);
    run(ctx, ops::CrossEntropy{.losses = losses.rows(begin, end),
                               .dlogits = backward ? z : Tensor{},
                               .logits = z,
                               .labels = row.label_ids.rows(begin, end),
                               .grad_scale = grad_scale});
    if (!backward) continue;
    projection.backward(ctx, {}, z, Linear::Saved{.x = x});
    projection.backward(ctx, x, z, {}, {.weight = false});
    run(ctx, ops::ScatterRows{.y = dh, .x = x, .index = index});
  }
  run(ctx, ops::AddSum{.out = loss_sum, .x = losses});
}

}  // namespace glmtune::nn
