#include "nn/router.h"

#include "ops/elementwise.h"
#include "ops/router.h"

namespace glmtune::nn {

Routing Routing::allocate(Arena& arena, std::int64_t tokens, std::int64_t experts, std::int64_t k) {
  return {.expert_ids = arena.make({tokens, k}, DType::kI32),
          .row_of_slot = arena.make({tokens, k}, DType::kI32),
          .slot_of_row = arena.make({tokens * k}, DType::kI32),
          .offsets = arena.make({experts + 1}, DType::kI32)};
}

void Router::forward(Context& ctx, Tensor weights, Tensor x, const Routing& routing, Mode mode,
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
                           .replay = mode.replay});
  if (!mode.replay) {
    run(ctx, ops::ExpertSort{.offsets = routing.offsets,
                             .row_of_slot = routing.row_of_slot,
                             .slot_of_row = routing.slot_of_row,
                             .expert_ids = routing.expert_ids});
    if (mode.count_load && load.defined())
      run(ctx, ops::AddExpertLoad{.load = load, .offsets = routing.offsets});
  }
  if (saved != nullptr) saved->scores = scores;
}

void Router::backward(Context& ctx, Tensor dx, Tensor dweights, const Routing& routing,
                      const Saved& saved) const {
  const Scope scope(*ctx.scratch);
  const std::int64_t T = dx.size(0), E = saved.scores.size(1);
  const Tensor dlogits = ctx.scratch->make({T, E}, dweights.dtype);
  run(ctx, ops::RouterTopkBackward{.dlogits = dlogits,
                                   .dweights = dweights,
                                   .scores = saved.scores,
                                   .expert_ids = routing.expert_ids,
                                   .norm_topk_prob = norm_topk_prob,
                                   .scaling = routed_scaling_factor});
  Tensor dlogits_x = dlogits;
  if (dlogits.dtype != dx.dtype) {
    dlogits_x = ctx.scratch->make({T, E}, dx.dtype);
    run(ctx, ops::Copy{.dst = dlogits_x, .src = dlogits});
  }
  gate.backward(ctx, dx, dlogits_x, saved.gate, {.add_to_dx = true});
}

}  // namespace glmtune::nn
