#include "base/cat.h"
#include "ops/fake_gate.h"
#include "ops/router.h"
#include "support/op_cases.h"

namespace glmtune::test {
namespace {

using I = std::int64_t;

// Logits 0.1 apart and more, in random order, so that no difference step changes a choice.
Tensor spread_logits(Operands& o, I T, I E) {
  std::vector<double> row;
  I next = E;
  return o.make("logits", Role::kInput, {T, E}, o.wide(), Layout::kPadded, [=, &o]() mutable {
    if (next == E) {
      next = 0;
      row.clear();
      for (I e = 0; e < E; ++e) row.push_back(6.0 * (double(e) + 0.25) / double(E) - 3);
      for (I e = E - 1; e > 0; --e)
        std::swap(row[static_cast<std::size_t>(e)],
                  row[static_cast<std::size_t>(o.random().below(e + 1))]);
    }
    return round_to(DType::kBF16, row[static_cast<std::size_t>(next++)]);
  });
}

struct RouterOptions {
  I n_group = 1, topk_group = 1;
  bool norm = true;
};

OpCase router(I T, I E, I K, RouterOptions options) {
  return {
      .name = cat("Router_", T, "x", E, "x", K, "_groups_", options.topk_group, "of",
                  options.n_group, options.norm ? "" : "_unnormalised"),
      .build =
          [=](Operands& o) {
            const ops::RouterTopk forward{.scores = o.output("scores", {T, E}, o.wide()),
                                          .expert_ids = o.output("expert_ids", {T, K}, DType::kI32),
                                          .weights = o.output("weights", {T, K}, o.wide()),
                                          .logits = spread_logits(o, T, E),
                                          .bias = o.input("bias", {E}, DType::kF32, 0.2),
                                          .n_group = options.n_group,
                                          .topk_group = options.topk_group,
                                          .norm_topk_prob = options.norm,
                                          .scaling = 2.5};
            const ops::RouterTopkBackward backward{
                .dlogits = o.output("dlogits", {T, E}, o.wide()),
                .dweights = o.input("dweights", {T, K}, o.wide()),
                .scores = forward.scores,
                .expert_ids = forward.expert_ids,
                .norm_topk_prob = options.norm,
                .scaling = 2.5};
            const ops::ExpertSort sort{.offsets = o.output("offsets", {E + 1}, DType::kI32),
                                       .row_of_slot = o.output("row_of_slot", {T, K}, DType::kI32),
                                       .slot_of_row = o.output("slot_of_row", {T * K}, DType::kI32),
                                       .expert_ids = forward.expert_ids};
            const ops::AddExpertLoad load{
                .load = o.integers("load", {E}, DType::kI64,
                                   std::vector<I>(static_cast<std::size_t>(E), 7), Role::kAdds),
                .offsets = sort.offsets};
            return Program{
                .steps = {step("RouterTopk", forward), step("RouterTopkBackward", backward),
                          step("ExpertSort", sort), step("AddExpertLoad", load),
                          step("UpdateRouterBias",
                               ops::UpdateRouterBias{.bias = o.adds("moved_bias", {E}, DType::kF32),
                                                     .load = load.load,
                                                     .gate = {},
                                                     .factor = 1e-3})},
                .seeds = {{"weights", "dweights"}},
                .gradients = {{"logits", "dlogits"}}};
          },
      .sum_length = K,
      .dtypes = {DType::kF32},
      // Differences of weighted gradients of either sign.
      .tolerance_factor = 4};
}

OpCase fake_gate(I T, I E, I K, double noise) {
  return {.name = cat("FakeGate_", T, "x", E, "x", K, "_noise_", noise),
          .build =
              [=](Operands& o) {
                return Program{
                    .steps = {step(
                        "FakeGate",
                        ops::FakeGate{.expert_ids = o.output("expert_ids", {T, K}, DType::kI32),
                                      .weights = o.output("weights", {T, K}, o.wide()),
                                      .experts = E,
                                      .noise = noise,
                                      .seed = 7})},
                    .seeds = {},
                    .gradients = {}};
              },
          .sum_length = K,
          .dtypes = {DType::kF32}};
}

}  // namespace

std::vector<OpCase> router_cases(Sizes sizes) {
  if (sizes == Sizes::kWide)
    return {router(700, 256, 8, {}), router(3000, 64, 4, {.n_group = 8, .topk_group = 3}),
            router(90, 600, 6, {}), fake_gate(700, 256, 8, 0), fake_gate(700, 256, 8, 0.5)};
  if (sizes == Sizes::kBench) return {router(4096, 16, 4, {}), router(4096, 256, 8, {})};
  return {router(5, 7, 2, {}),
          router(9, 8, 3, {.norm = false}),
          router(6, 12, 4, {.n_group = 4, .topk_group = 2}),
          router(4, 9, 1, {.n_group = 3, .topk_group = 1}),
          router(3, 40, 8, {}),
          router(0, 4, 2, {}),
          fake_gate(7, 9, 3, 0),
          fake_gate(7, 9, 3, 0.25),
          fake_gate(0, 4, 2, 1)};
}

}  // namespace glmtune::test
