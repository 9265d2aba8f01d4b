// Choices that do not look at tokens, against the words of ops/fake_gate.h. The device's agreement
// with the CPU is checked by the op cases (support/cases_router.cpp).
#include "ops/fake_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace glmtune::ops {
namespace {

struct Choices {
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<std::vector<double>> weights;
};

Choices choose(std::int64_t T, std::int64_t E, std::int64_t K, double noise, std::uint64_t seed) {
  const OwnedTensor ids({T, K}, DType::kI32, Device::kCpu), w({T, K}, DType::kF64, Device::kCpu);
  Context ctx;
  run(ctx, FakeGate{.expert_ids = ids, .weights = w, .experts = E, .noise = noise, .seed = seed});
  Choices out;
  for (std::int64_t t = 0; t < T; ++t) {
    const auto* i = ids.view.as<std::int32_t>() + t * K;
    const auto* v = w.view.as<double>() + t * K;
    out.ids.emplace_back(i, i + K);
    out.weights.emplace_back(v, v + K);
  }
  return out;
}

TEST(FakeGate, WithoutNoiseExpertsTakeTurns) {
  const Choices c = choose(4, 5, 2, 0, 7);
  EXPECT_EQ(c.ids, (std::vector<std::vector<std::int32_t>>{{0, 1}, {2, 3}, {4, 0}, {1, 2}}));
  for (const auto& row : c.weights) EXPECT_EQ(row, (std::vector<double>{0.5, 0.5}));
}

TEST(FakeGate, WithNoiseWeightsAddUpToOneAndExpertsDiffer) {
  for (const double noise : {0.25, 1.0}) {
    const Choices c = choose(200, 9, 3, noise, 7);
    std::set<std::vector<std::int32_t>> sets;
    for (std::size_t t = 0; t < c.ids.size(); ++t) {
      const std::set<std::int32_t> experts(c.ids[t].begin(), c.ids[t].end());
      EXPECT_EQ(experts.size(), 3U);
      EXPECT_GE(*experts.begin(), 0);
      EXPECT_LT(*experts.rbegin(), 9);
      sets.insert(c.ids[t]);
      double sum = 0;
      for (const double w : c.weights[t]) {
        EXPECT_GE(w, (1 - noise) / 3);
        sum += w;
      }
      EXPECT_NEAR(sum, 1, 1e-12);
    }
    EXPECT_GT(sets.size(), 100U);  // tokens choose for themselves
  }
}

// u + 0.1·noise·g in floating point, from the same Philox words.
TEST(FakeGate, ChoosesTheLargestOfUniformsAndFavours) {
  constexpr std::int64_t T = 100, E = 12, K = 4;
  constexpr double kNoise = 0.75;
  constexpr std::uint64_t kSeed = 11;
  const Choices c = choose(T, E, K, kNoise, kSeed);
  int compared = 0;
  for (std::int64_t t = 0; t < T; ++t) {
    std::vector<std::pair<double, std::int32_t>> scores;
    for (std::uint64_t e = 0; e < E; ++e) {
      const Philox u = philox(kSeed, e, static_cast<std::uint64_t>(t) + 1), g = philox(kSeed, e, 0);
      double sum = -2;
      for (const std::uint32_t word : g.word) sum += word * 0x1p-32;
      scores.emplace_back(u.word[0] * 0x1p-32 + 0.1 * kNoise * std::sqrt(3.0) * sum,
                          static_cast<std::int32_t>(e));
    }
    std::sort(scores.rbegin(), scores.rend());
    double gap = 1;
    for (std::size_t i = 0; i < K; ++i) gap = std::min(gap, scores[i].first - scores[i + 1].first);
    if (gap < 1e-4) continue;  // as close as the whole numbers' rounding
    ++compared;
    for (std::size_t i = 0; i < K; ++i)
      EXPECT_EQ(c.ids[static_cast<std::size_t>(t)][i], scores[i].second) << t;
  }
  EXPECT_GT(compared, 80);
}

// Layers have seeds that follow each other.
TEST(FakeGate, WeightsShareNoBitsWithTheNextSeedsChoices) {
  const FakeChoice layer{.experts = 8, .chosen = 8, .bias_scale = 0, .seed = 20};
  FakeChoice next = layer;
  ++next.seed;
  for (std::int64_t t = 0; t < 20; ++t)
    for (std::int64_t j = 0; j < 8; ++j)
      for (const std::int64_t s : {t - 1, t, t + 1})
        EXPECT_NE(layer.v(t, j) - 1, next.u(s, j)) << t << " " << j;
}

}  // namespace
}  // namespace glmtune::ops
