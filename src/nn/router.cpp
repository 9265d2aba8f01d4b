#include "nn/router.h"

#include "ops/elementwise.h"
#include "ops/fake_gate.h"
#include "ops/matmul.h"
#include "ops/router.h"
#include "ops/split_bf16.h"

namespace glmtune::nn {

Routing Routing::allocate(Arena& arena, std::int64_t tokens, std::int64_t experts, std::int64_t k) {
  return {.expert_ids = arena.make({tokens, k}, DType::kI32),
          .row_of_slot = arena.make({tokens, k}, DType::kI32),
          .slot_of_row = arena.make({tokens * k}, DType::kI32),
          .offsets = arena.make({experts + 1}, DType::kI32)};
}

void Router::score(Context& ctx, Tensor weights, Tensor x, const Routing& routing, bool replay,
                   Saved* saved) const {
  const Scope scope(*ctx.scratch);
  const std::int64_t T = x.size(0), E = gate.weight.value.size(0);
  const Tensor scores = ctx.keep(saved != nullptr).make({T, E}, wide(x.dtype));
  const Tensor logits = ctx.scratch->make({T, E}, wide(x.dtype));
  gate.forward(ctx, logits, x, saved != nullptr ? &saved->gate : nullptr);
  run(ctx, ops::RouterTopk{.scores = scores,
                           .expert_ids = routing.expert_ids,
                           .weights = weights,
                           .logits = logits,
                           .bias = e_score_correction_bias.value,
                           .n_group = n_group,
                           .topk_group = topk_group,
                           .norm_topk_prob = norm_topk_prob,
                           .scaling = routed_scaling_factor,
                           .replay = replay});
  if (saved != nullptr) saved->scores = scores;
}

void Router::forward(Context& ctx, Tensor weights, Tensor x, const Routing& routing, Mode mode,
                     Saved* saved) const {
  if (fake_noise) {
    run(ctx, ops::FakeGate{.expert_ids = routing.expert_ids,
                           .weights = weights,
                           .experts = gate.weight.value.size(0),
                           .noise = *fake_noise,
                           .seed = fake_seed});
  } else {
    score(ctx, weights, x, routing, mode.replay, saved);
  }
  if (mode.replay) return;
  run(ctx, ops::ExpertSort{.offsets = routing.offsets,
                           .row_of_slot = routing.row_of_slot,
                           .slot_of_row = routing.slot_of_row,
                           .expert_ids = routing.expert_ids});
  if (mode.count_load && load.defined())
    run(ctx, ops::AddExpertLoad{.load = load, .offsets = routing.offsets});
}

void Router::backward(Context& ctx, Tensor dx, Tensor dweights, const Routing& routing,
                      const Saved& saved) const {
  if (fake_noise) return;  // weights that depend on nothing
  const Scope scope(*ctx.scratch);
  const std::int64_t T = dx.size(0), E = saved.scores.size(1);
  const Tensor dlogits = ctx.scratch->make({T, E}, dweights.dtype);
  run(ctx, ops::RouterTopkBackward{.dlogits = dlogits,
                                   .dweights = dweights,
                                   .scores = saved.scores,
                                   .expert_ids = routing.expert_ids,
                                   .norm_topk_prob = norm_topk_prob,
                                   .scaling = routed_scaling_factor});
  if (dlogits.dtype == dx.dtype)
    gate.backward(ctx, dx, dlogits, saved.gate, {.add_to_dx = true});
  else
    gate_backward(ctx, dx, dlogits, saved.gate.x);
}

void Router::gate_backward(Context& ctx, Tensor dx, Tensor dlogits, Tensor x) const {
  const std::int64_t T = dlogits.size(0), E = dlogits.size(1), C = x.size(1);
  const Tensor parts = ctx.scratch->make({T, 3 * E}, x.dtype);
  run(ctx, ops::SplitBf16{.y = parts, .x = dlogits});
  // One product over all parts: their sum is rounded once, into dx.
  const Tensor weights = ctx.scratch->make({3 * E, C}, x.dtype);
  for (std::int64_t i = 0; i < 3; ++i)
    run(ctx, ops::Copy{.dst = weights.rows(i * E, (i + 1) * E), .src = gate.weight.value});
  run(ctx, ops::Matmul{.out = dx, .a = parts, .b = weights, .beta = 1});
  if (!gate.weight.grad.defined()) return;
  for (std::int64_t i = 0; i < 3; ++i)
    run(ctx, ops::Matmul{.out = gate.weight.grad,
                         .a = parts.slice(1, i * E, (i + 1) * E),
                         .b = x,
                         .trans_a = true,
                         .beta = gate.weight.begin_grad(ctx) ? 0.0 : 1.0});
}

}  // namespace glmtune::nn
