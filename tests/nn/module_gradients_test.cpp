// Gradients of the single modules against central differences in double, tensor by tensor.
#include <gtest/gtest.h>

#include "nn/lm_head.h"
#include "nn/mlp.h"
#include "nn/moe_mlp.h"
#include "nn/rms_norm.h"
#include "ops/router.h"
#include "support/module_check.h"

namespace glmtune::nn {
namespace {

using test::ModuleCheck;

constexpr std::int64_t T = 7, C = 6, I = 5;

TEST(Linear, GradientsAgreeWithCentralDifferences) {
  ModuleCheck m(1);
  const Linear linear{.weight = m.parameter("weight", {5, 4})};
  const Tensor x = m.input("x", {7, 4}), residual = m.input("residual", {7, 5}), y = m.make({7, 5}),
               dy = m.make({7, 5});
  Linear::Saved saved;
  EXPECT_EQ(
      m.check(
          y, dy,
          [&](bool keep) { linear.forward(m.ctx(), y, x, keep ? &saved : nullptr, residual); },
          [&] {
            linear.backward(m.ctx(), m.gradient("x"), dy, saved);
            copy_bytes(m.gradient("residual"), dy);
          }),
      "");
}

TEST(Linear, InputGradientIsAddedOnRequestAndWeightFollowsInACallOfItsOwn) {
  ModuleCheck m(2);
  const Linear linear{.weight = m.parameter("weight", {3, 4})};
  const Tensor x = m.input("x", {6, 4}), y = m.make({6, 3}), dy = m.make({6, 3});
  m.adds_to("x");
  Linear::Saved saved;
  EXPECT_EQ(m.check(
                y, dy, [&](bool keep) { linear.forward(m.ctx(), y, x, keep ? &saved : nullptr); },
                [&] {
                  linear.backward(m.ctx(), m.gradient("x"), dy, saved,
                                  {.add_to_dx = true, .weight = false});
                  linear.backward(m.ctx(), {}, dy, saved);
                }),
            "");
}

TEST(Linear, FrozenWeightPassesTheGradientThrough) {
  ModuleCheck m(3);
  const Linear linear{.weight = m.frozen("weight", {3, 4})};
  const Tensor x = m.input("x", {6, 4}), y = m.make({6, 3}), dy = m.make({6, 3});
  Linear::Saved saved;
  EXPECT_EQ(m.check(
                y, dy, [&](bool keep) { linear.forward(m.ctx(), y, x, keep ? &saved : nullptr); },
                [&] { linear.backward(m.ctx(), m.gradient("x"), dy, saved); }),
            "");
}

TEST(RmsNorm, GradientsAgreeWithCentralDifferences) {
  for (const bool with_residual : {false, true}) {
    ModuleCheck m(4);
    const RmsNorm norm{.weight = m.parameter("weight", {C}, 0.3, 1), .eps = 0.01};
    const Tensor x = m.input("x", {T, C}), y = m.make({T, C}), dy = m.make({T, C});
    // The gradient that bypasses the norm may stand where dx is written.
    if (with_residual) m.adds_to("x");
    RmsNorm::Saved saved;
    EXPECT_EQ(m.check(
                  y, dy, [&](bool keep) { norm.forward(m.ctx(), y, x, keep ? &saved : nullptr); },
                  [&] {
                    norm.backward(m.ctx(), m.gradient("x"), dy, saved,
                                  with_residual ? m.gradient("x") : Tensor{});
                  }),
              "");
  }
}

Mlp make_mlp(ModuleCheck& m, const std::string& prefix) {
  return {.gate_proj = {m.parameter(prefix + "gate_proj", {I, C})},
          .up_proj = {m.parameter(prefix + "up_proj", {I, C})},
          .down_proj = {m.parameter(prefix + "down_proj", {C, I})}};
}

TEST(Mlp, GradientsAgreeWithCentralDifferences) {
  ModuleCheck m(5);
  const Mlp mlp = make_mlp(m, "");
  const Tensor x = m.input("x", {T, C}), residual = m.input("residual", {T, C}), y = m.make({T, C}),
               dy = m.make({T, C});
  Mlp::Saved saved;
  EXPECT_EQ(
      m.check(
          y, dy, [&](bool keep) { mlp.forward(m.ctx(), y, x, residual, keep ? &saved : nullptr); },
          [&] {
            mlp.backward(m.ctx(), m.gradient("x"), dy, saved);
            copy_bytes(m.gradient("residual"), dy);
          }),
      "");
}

// 3 experts a token. The choice is made once and replayed: differences never cross a tie.
Router make_router(ModuleCheck& m, std::int64_t experts) {
  Router r;
  r.num_experts_per_tok = 3;
  r.routed_scaling_factor = 2.5;
  r.gate.weight = m.parameter("gate", {experts, C}, 0.7);
  r.e_score_correction_bias.value = m.make({experts}, DType::kF32);
  for (std::int64_t e = 0; e < experts; ++e)
    r.e_score_correction_bias.value.as<float>()[e] = static_cast<float>(0.2 * m.random().normal());
  return r;
}

TEST(Router, GradientsAgreeWithCentralDifferences) {
  for (const bool normalised : {true, false})
    for (const std::int64_t groups : {1, 4}) {
      ModuleCheck m(6);
      Router router = make_router(m, 8);
      router.norm_topk_prob = normalised;
      router.n_group = groups;
      router.topk_group = (groups + 1) / 2;
      const Tensor x = m.input("x", {T, C}), weights = m.make({T, 3}), dweights = m.make({T, 3});
      m.adds_to("x");  // the router's part comes after the experts'
      const Routing routing = Routing::allocate(*m.ctx().saved, T, 8, 3);
      router.forward(m.ctx(), weights, x, routing, {}, nullptr);
      Router::Saved saved;
      EXPECT_EQ(m.check(
                    weights, dweights,
                    [&](bool keep) {
                      router.forward(m.ctx(), weights, x, routing, {.replay = true},
                                     keep ? &saved : nullptr);
                    },
                    [&] { router.backward(m.ctx(), m.gradient("x"), dweights, routing, saved); }),
                "")
          << "groups " << groups << ", normalised " << normalised;
    }
}

// Expert-sorted rows of given choices.
Routing route(ModuleCheck& m, std::int64_t experts, const std::vector<std::int32_t>& ids) {
  const Routing r =
      Routing::allocate(*m.ctx().saved, static_cast<std::int64_t>(ids.size()) / 2, experts, 2);
  std::copy(ids.begin(), ids.end(), r.expert_ids.as<std::int32_t>());
  glmtune::run(m.ctx(), ops::ExpertSort{.offsets = r.offsets,
                                        .row_of_slot = r.row_of_slot,
                                        .slot_of_row = r.slot_of_row,
                                        .expert_ids = r.expert_ids});
  return r;
}

Experts make_experts(ModuleCheck& m, std::int64_t experts) {
  return {.gate_up_proj = m.parameter("gate_up_proj", {experts, 2 * I, C}),
          .down_proj = m.parameter("down_proj", {experts, C, I})};
}

TEST(Experts, GradientsAgreeWithCentralDifferencesAlsoOfExpertsWithoutTokens) {
  ModuleCheck m(7);
  const Experts experts = make_experts(m, 5);  // expert 2 gets no token, expert 4 gets one
  const Tensor x = m.input("x", {4, C}), weights = m.input("weights", {4, 2}),
               base = m.input("base", {4, C}), y = m.make({4, C}), dy = m.make({4, C});
  m.adds_to("x");
  const Routing routing = route(m, 5, {1, 0, 3, 1, 4, 0, 1, 3});
  Experts::Saved saved;
  EXPECT_EQ(m.check(
                y, dy,
                [&](bool keep) {
                  experts.forward(m.ctx(), y, x, base, weights, routing, keep ? &saved : nullptr);
                },
                [&] {
                  experts.backward(m.ctx(), m.gradient("x"), m.gradient("weights"), dy, routing,
                                   saved);
                  copy_bytes(m.gradient("base"), dy);
                }),
            "");
}

TEST(MoeMlp, GradientsAgreeWithCentralDifferencesWithAndWithoutASharedExpert) {
  for (const bool shared : {true, false}) {
    ModuleCheck m(8);
    MoeMlp moe;
    moe.router = make_router(m, 6);
    moe.experts = make_experts(m, 6);
    if (shared) moe.shared_experts = make_mlp(m, "shared_experts.");
    const Tensor x = m.input("x", {T, C}), residual = m.input("residual", {T, C}),
                 y = m.make({T, C}), dy = m.make({T, C});
    const Routing routing = moe.allocate_routing(*m.ctx().saved, T);
    moe.forward(m.ctx(), y, x, residual, routing, {}, nullptr);
    MoeMlp::Saved saved;
    EXPECT_EQ(m.check(
                  y, dy,
                  [&](bool keep) {
                    moe.forward(m.ctx(), y, x, residual, routing, {.replay = true},
                                keep ? &saved : nullptr);
                  },
                  [&] {
                    moe.backward(m.ctx(), m.gradient("x"), dy, routing, saved);
                    copy_bytes(m.gradient("residual"), dy);
                  }),
              "")
        << "shared " << shared;
  }
}

TEST(LmHead, GradientsAgreeWithCentralDifferencesWhateverTheChunk) {
  for (const std::int64_t chunk : {1, 4, 1024}) {
    ModuleCheck m(9);
    const LmHead head{.chunk_rows = chunk};
    const Linear projection{.weight = m.parameter("lm_head", {11, C})};
    const PackedRow row = m.row({9, 1, 5}, 11, {.index_topk = 16});
    const Tensor h = m.input("h", {row.tokens, C});
    const Tensor loss = m.make({1}), dloss = m.make({1});
    EXPECT_EQ(m.check(
                  loss, dloss,
                  [&](bool) {
                    loss.as<double>()[0] = 0;
                    head.run(m.ctx(), loss, {}, projection, h, row, 1);
                  },
                  [&] {
                    const Tensor again = m.make({1});
                    head.run(m.ctx(), again, m.gradient("h"), projection, h, row,
                             dloss.as<double>()[0]);
                  }),
              "")
        << "chunk " << chunk;
  }
}

}  // namespace
}  // namespace glmtune::nn
