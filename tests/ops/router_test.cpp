#include "ops/router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace glmtune::ops {
namespace {

// Scores that a sigmoid makes of these logits are ordered as the logits are.
struct Routing {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

Routing route(std::vector<float> logits, std::vector<float> bias, std::int64_t K,
              std::int64_t n_group = 1, std::int64_t topk_group = 1,
              std::vector<std::int32_t> replayed = {}) {
  const auto E = static_cast<std::int64_t>(logits.size());
  std::vector<float> scores(logits.size());
  Routing r{replayed, std::vector<float>(static_cast<std::size_t>(K))};
  r.ids.resize(static_cast<std::size_t>(K), -7);
  Context ctx;
  run(ctx, RouterTopk{.scores = Tensor::dense(scores.data(), {1, E}, DType::kF32, Device::kCpu),
                      .expert_ids = Tensor::dense(r.ids.data(), {1, K}, DType::kI32, Device::kCpu),
                      .weights = Tensor::dense(r.weights.data(), {1, K}, DType::kF32, Device::kCpu),
                      .logits = Tensor::dense(logits.data(), {1, E}, DType::kF32, Device::kCpu),
                      .bias = Tensor::dense(bias.data(), {E}, DType::kF32, Device::kCpu),
                      .n_group = n_group,
                      .topk_group = topk_group,
                      .scaling = 2.5,
                      .replay = !replayed.empty()});
  return r;
}

using Ids = std::vector<std::int32_t>;

TEST(Router, OfEqualScoresTakesTheLowerIndex) {
  EXPECT_EQ(route({1, 3, 3, 1, 3}, {0, 0, 0, 0, 0}, 2).ids, (Ids{1, 2}));
  EXPECT_EQ(route({1, 1, 1, 1}, {0, 0, 0, 0}, 3).ids, (Ids{0, 1, 2}));
}

TEST(Router, BiasDecidesTheChoiceButNotTheWeights) {
  const Routing r = route({0, 0, 2, 0}, {0, 5, 0, 4}, 2);
  EXPECT_EQ(r.ids, (Ids{1, 3}));
  EXPECT_FLOAT_EQ(r.weights[0], 1.25f);
  EXPECT_FLOAT_EQ(r.weights[1], 1.25f);
}

TEST(Router, KeepsTheGroupsWhoseTwoBestAddUpToMost) {
  // The best single expert is in group 0, but group 1's pair is better.
  EXPECT_EQ(route({3, -9, 1, 1, -9, -9}, {0, 0, 0, 0, 0, 0}, 2, 3, 1).ids, (Ids{2, 3}));
  EXPECT_EQ(route({3, -9, 1, 1, -9, -9}, {0, 0, 0, 0, 0, 0}, 2, 3, 2).ids, (Ids{0, 2}));
  // Negative choices (a large negative bias) still beat what is in a group left out.
  EXPECT_EQ(route({1, 1, 0, 0}, {0, 0, -9, -9}, 2, 2, 1).ids, (Ids{0, 1}));
}

TEST(Router, ReplaysAChoiceWithFreshWeights) {
  const Routing r = route({1, 3, 3, 1, 3}, {0, 0, 0, 0, 0}, 2, 1, 1, {4, 0});
  EXPECT_EQ(r.ids, (Ids{4, 0}));
  const double a = 1 / (1 + std::exp(-3.0)), b = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(r.weights[0], 2.5 * a / (a + b), 1e-6);
}

TEST(Router, NeverPrefersNaNAndStillNamesKExperts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(route({nan, 1, nan, 2}, {0, 0, 0, 0}, 3).ids, (Ids{3, 1, 0}));
}

TEST(Router, RefusesMoreExpertsThanTheGroupsHold) {
  EXPECT_THROW(route({1, 2, 3, 4}, {0, 0, 0, 0}, 3, 2, 1), Error);
  EXPECT_THROW(route({1, 2, 3}, {0, 0, 0}, 1, 2, 1), Error);
}

TEST(Router, BiasMovesAgainstTheLoadAndRestsAtTheMean) {
  std::vector<std::int64_t> load{6, 2, 4};
  std::vector<float> bias{0, 0, 0.5f};
  double gate = 1;
  Context ctx;
  const UpdateRouterBias update{.bias = Tensor::dense(bias.data(), {3}, DType::kF32, Device::kCpu),
                                .load = Tensor::dense(load.data(), {3}, DType::kI64, Device::kCpu),
                                .gate = Tensor::dense(&gate, {1}, DType::kF64, Device::kCpu),
                                .factor = 0.25};
  run(ctx, update);
  EXPECT_EQ(bias, (std::vector<float>{-0.25f, 0.25f, 0.5f}));
  gate = std::numeric_limits<double>::quiet_NaN();
  run(ctx, update);  // a step that is not applied
  EXPECT_EQ(bias, (std::vector<float>{-0.25f, 0.25f, 0.5f}));
}

TEST(ExpertSort, KeepsTheOrderOfSlotsWithinAnExpert) {
  Ids ids{2, 0, 0, 2, 2, 0}, rows(6), slots(6), offsets(5);
  Context ctx;
  run(ctx, ExpertSort{.offsets = Tensor::dense(offsets.data(), {5}, DType::kI32, Device::kCpu),
                      .row_of_slot = Tensor::dense(rows.data(), {3, 2}, DType::kI32, Device::kCpu),
                      .slot_of_row = Tensor::dense(slots.data(), {6}, DType::kI32, Device::kCpu),
                      .expert_ids = Tensor::dense(ids.data(), {3, 2}, DType::kI32, Device::kCpu)});
  EXPECT_EQ(offsets, (Ids{0, 3, 3, 6, 6}));
  EXPECT_EQ(slots, (Ids{1, 2, 5, 0, 3, 4}));
  EXPECT_EQ(rows, (Ids{3, 0, 1, 4, 5, 2}));
}

}  // namespace
}  // namespace glmtune::ops
