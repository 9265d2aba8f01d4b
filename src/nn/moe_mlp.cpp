#include "nn/moe_mlp.h"

#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/rows.h"
#include "ops/swiglu.h"

namespace glmtune::nn {

void Experts::forward(Context& ctx, Tensor y, Tensor x, Tensor base, Tensor weights,
                      const Routing& routing, Saved* saved) const {
  const Scope scope(*ctx.scratch);
  Arena& arena = ctx.keep(saved != nullptr);
  Arena& scratch = *ctx.scratch;
  const std::int64_t R = weights.count(), C = x.size(1);
  const std::int64_t I = down_proj.value.size(2);
  const Tensor gate_up = arena.make({R, 2 * I}, x.dtype);
  const Tensor row_weights = arena.make({R, 1}, weights.dtype);
  const Tensor rows = scratch.make({R, C}, x.dtype);

  run(ctx, ops::SpreadRows{.y = rows, .x = x, .row_of_slot = routing.row_of_slot});
  run(ctx, ops::GatherRows{
               .y = row_weights, .x = weights.reshape({R, 1}), .index = routing.slot_of_row});
  run(ctx, ops::GroupedMatmul{.out = gate_up,
                              .a = rows,
                              .b = gate_up_proj.value,
                              .offsets = routing.offsets,
                              .trans_b = true});
  if (saved != nullptr) *saved = {.gate_up = gate_up, .row_weights = row_weights, .x = x};
  if (!y.defined()) return;
  const Tensor act = scratch.make({R, I}, x.dtype);
  run(ctx, ops::Swiglu{.y = act,
                       .gate = gate_up.slice(1, 0, I),
                       .up = gate_up.slice(1, I, 2 * I),
                       .row_scale = row_weights.reshape({R})});
  run(ctx, ops::GroupedMatmul{.out = rows,
                              .a = act,
                              .b = down_proj.value,
                              .offsets = routing.offsets,
                              .trans_b = true});
  run(ctx, ops::CombineRows{.y = y, .x = rows, .row_of_slot = routing.row_of_slot, .base = base});
}

void Experts::backward(Context& ctx, Tensor dx, Tensor dweights, Tensor dy, const Routing& routing,
                       const Saved& saved) const {
  const Scope scope(*ctx.scratch);
  Arena& scratch = *ctx.scratch;
  const std::int64_t R = dweights.count(), C = dy.size(1);
  const std::int64_t I = down_proj.value.size(2);
  const Tensor row_weights = saved.row_weights.reshape({R});
  const Tensor gate = saved.gate_up.slice(1, 0, I), up = saved.gate_up.slice(1, I, 2 * I);
  const Tensor rows = scratch.make({R, C}, dy.dtype);  // dy per row, then x, then dx
  const Tensor act = scratch.make({R, I}, dy.dtype), dact = scratch.make({R, I}, dy.dtype);
  const Tensor dgate_up = scratch.make({R, 2 * I}, dy.dtype);
  const Tensor drow_weights = scratch.make({R, 1}, dweights.dtype);

  run(ctx, ops::SpreadRows{.y = rows, .x = dy, .row_of_slot = routing.row_of_slot});
  run(ctx,
      ops::GroupedMatmul{.out = dact, .a = rows, .b = down_proj.value, .offsets = routing.offsets});
  run(ctx, ops::SwigluBackward{.dgate = dgate_up.slice(1, 0, I),
                               .dup = dgate_up.slice(1, I, 2 * I),
                               .drow_scale = drow_weights.reshape({R}),
                               .y = act,
                               .dy = dact,
                               .gate = gate,
                               .up = up,
                               .row_scale = row_weights});
  if (down_proj.grad.defined())
    run(ctx, ops::GroupedMatmulWgrad{.dw = down_proj.grad,
                                     .dy = rows,
                                     .x = act,
                                     .offsets = routing.offsets,
                                     .overwrite = down_proj.begin_grad(ctx)});
  run(ctx, ops::GatherRows{.y = dweights.reshape({R, 1}),
                           .x = drow_weights,
                           .index = routing.row_of_slot.reshape({R})});
  if (gate_up_proj.grad.defined()) {
    run(ctx, ops::SpreadRows{.y = rows, .x = saved.x, .row_of_slot = routing.row_of_slot});
    run(ctx, ops::GroupedMatmulWgrad{.dw = gate_up_proj.grad,
                                     .dy = dgate_up,
                                     .x = rows,
                                     .offsets = routing.offsets,
                                     .overwrite = gate_up_proj.begin_grad(ctx)});
  }
  run(ctx, ops::GroupedMatmul{
               .out = rows, .a = dgate_up, .b = gate_up_proj.value, .offsets = routing.offsets});
  run(ctx, ops::CombineRows{.y = dx, .x = rows, .row_of_slot = routing.row_of_slot, .base = dx});
}

Routing MoeMlp::allocate_routing(Arena& arena, std::int64_t tokens) const {
  return Routing::allocate(arena, tokens, experts.down_proj.value.size(0),
                           router.num_experts_per_tok);
}

void MoeMlp::forward(Context& ctx, Tensor y, Tensor x, Tensor residual, const Routing& routing,
                     Router::Mode mode, Saved* saved) const {
  const Scope scope(*ctx.scratch);
  const Tensor weights = ctx.scratch->make({x.size(0), router.num_experts_per_tok}, wide(x.dtype));
  router.forward(ctx, weights, x, routing, mode, saved != nullptr ? &saved->router : nullptr);
  Tensor base = residual;
  if (shared_experts) {
    shared_experts->forward(ctx, y, x, residual, saved != nullptr ? &saved->shared : nullptr);
    base = y;
  }
  experts.forward(ctx, y, x, base, weights, routing, saved != nullptr ? &saved->experts : nullptr);
}

void MoeMlp::backward(Context& ctx, Tensor dx, Tensor dy, const Routing& routing,
                      const Saved& saved) const {
  const Scope scope(*ctx.scratch);
  const Tensor dweights =
      ctx.scratch->make({dy.size(0), router.num_experts_per_tok}, wide(dy.dtype));
  if (shared_experts)
    shared_experts->backward(ctx, dx, dy, saved.shared);
  else
    run(ctx, ops::Fill{.x = dx, .value = 0});
  experts.backward(ctx, dx, dweights, dy, routing, saved.experts);
  router.backward(ctx, dx, dweights, routing, saved.router);
}

}  // namespace glmtune::nn
