#include "ops/indexer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/op_case.h"

namespace glmtune::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(IndexScores, AreWeightedSumsOfPositivePartsOverTheHeads) {
  const std::int64_t Tq = 21, S = 57, I = 11, D = 13, query_begin = 36;
  Operands o({.pad = 3});
  const ops::IndexScores op{.scores = o.output("scores", {Tq, S}),
                            .q = o.input("q", {Tq, I, D}),
                            .k = o.input("k", {S, D}),
                            .weights = o.input("weights", {Tq, I}),
                            .scale = 0.3,
                            .weight_scale = 0.7,
                            .query_begin = query_begin};
  TestContext test(Device::kCpu);
  run(test.ctx, op);
  EXPECT_EQ(o.damage(), "");
  for (std::int64_t t = 0; t < Tq; ++t)
    for (std::int64_t s = 0; s <= query_begin + t; ++s) {
      double want = 0;
      for (std::int64_t h = 0; h < I; ++h) {
        double dot = 0;
        for (std::int64_t d = 0; d < D; ++d)
          dot += op.q.row<double>(t)[h * op.q.stride(1) + d] * op.k.row<double>(s)[d];
        want += 0.7 * op.weights.row<double>(t)[h] * std::max(0.0, 0.3 * dot);
      }
      EXPECT_NEAR(op.scores.row<double>(t)[s], want, 1e-12) << t << ", " << s;
    }
}

TEST(IndexScores, KeepANanOfTheInput) {
  Operands o({.real = DType::kF32});
  const ops::IndexScores op{.scores = o.output("scores", {2, 2}, DType::kF32),
                            .q = o.input("q", {2, 1, 3}),
                            .k = o.input("k", {2, 3}),
                            .weights = o.input("weights", {2, 1}, DType::kF32),
                            .scale = 1,
                            .weight_scale = 1};
  op.k.as<float>()[1] = static_cast<float>(kNan);
  TestContext test(Device::kCpu);
  run(test.ctx, op);
  EXPECT_TRUE(std::isnan(op.scores.row<float>(0)[0]));
  EXPECT_FALSE(std::isnan(op.scores.row<float>(1)[1]));
}

// The definition: a stable sort by score, larger first, NaN last.
std::vector<std::int64_t> best_keys(const std::vector<double>& scores, std::int64_t visible,
                                    std::int64_t k) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(visible));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const double x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    return std::isnan(y) ? !std::isnan(x) : x > y;
  });
  order.resize(static_cast<std::size_t>(std::min(k, visible)));
  std::sort(order.begin(), order.end());
  return order;
}

// One run against the definition: mask, indices and counts.
void expect_best_keys(DType dtype, std::int64_t Tq, std::int64_t S, std::int64_t k,
                      std::int64_t query_begin, const std::function<double(Random&)>& score) {
  Random random(5);
  Operands o({.real = dtype, .pad = 1});
  const ops::TopkSelect op{.mask = o.output("mask", {Tq, (S + 31) / 32 + 1}, DType::kU32),
                           .indices = o.output("indices", {Tq, std::min(k, S) + 2}, DType::kI32),
                           .counts = o.output("counts", {Tq}, DType::kI32),
                           .scores = o.make("scores", Role::kInput, {Tq, S}, dtype, Layout::kPadded,
                                            [&] { return score(random); }),
                           .k = k,
                           .query_begin = query_begin,
                           .index_base = 70};
  TestContext test(Device::kCpu);
  run(test.ctx, op);
  EXPECT_EQ(o.damage(), "");
  const std::vector<double> scores = values_of(op.scores);
  for (std::int64_t t = 0; t < Tq; ++t) {
    const std::vector<double> row(scores.begin() + t * S, scores.begin() + (t + 1) * S);
    const std::vector<std::int64_t> want = best_keys(row, query_begin + t + 1, k);
    std::vector<std::int64_t> indices(op.indices.row<std::int32_t>(t),
                                      op.indices.row<std::int32_t>(t) + op.indices.size(1));
    std::vector<std::int64_t> padded;
    for (const std::int64_t key : want) padded.push_back(key + 70);
    padded.resize(indices.size(), -1);
    EXPECT_EQ(indices, padded) << "query " << t;
    EXPECT_EQ(op.counts.as<std::int32_t>()[t], static_cast<std::int32_t>(want.size()));
    std::vector<std::int64_t> set;
    for (std::int64_t s = 0; s < 32 * op.mask.size(1); ++s)
      if ((op.mask.row<std::uint32_t>(t)[s / 32] >> (s % 32) & 1) != 0) set.push_back(s);
    EXPECT_EQ(set, want) << "mask of query " << t;
  }
}

TEST(TopkSelect, TakesTheBestKeysAndOfEqualOnesTheFirst) {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const auto any = [](Random& r) { return r.normal(); };
    const auto few = [](Random& r) { return static_cast<double>(r.below(4)); };
    const auto close = [](Random& r) { return 1 + 1e-6 * static_cast<double>(r.below(5)); };
    for (const auto& score : {std::function<double(Random&)>(any), {few}, {close}}) {
      expect_best_keys(dtype, 40, 40, 1, 0, score);
      expect_best_keys(dtype, 33, 70, 31, 37, score);
      expect_best_keys(dtype, 9, 300, 256, 250, score);
      expect_best_keys(dtype, 4, 20, 50, 3, score);
      expect_best_keys(dtype, 4, 20, 0, 3, score);
    }
  }
}

TEST(TopkSelect, OrdersZerosInfinitiesAndNans) {
  const auto special = [](Random& r) {
    const double values[] = {0.0, -0.0, kInfinity, -kInfinity, kNan, -kNan, 1e-42, -1e-42, 2};
    return values[r.below(9)];
  };
  for (const DType dtype : {DType::kF64, DType::kF32})
    for (const std::int64_t k : {1, 5, 20, 40}) expect_best_keys(dtype, 30, 60, k, 30, special);
}

TEST(TopkSelect, NeedsNoScoresWhereEveryKeyIsTaken) {
  Operands o({.real = DType::kF32});
  const ops::TopkSelect op{.mask = {},
                           .indices = o.output("indices", {3, 3}, DType::kI32),
                           .counts = {},
                           .scores = o.output("scores", {3, 3}),
                           .k = 3};
  TestContext test(Device::kCpu);
  run(test.ctx, op);
  const std::vector<double> want{0, -1, -1, 0, 1, -1, 0, 1, 2};
  EXPECT_EQ(values_of(op.indices), want);
}

TEST(TopkSelect, RefusesTablesThatAreTooNarrow) {
  Operands o({.real = DType::kF32});
  TestContext test(Device::kCpu);
  ops::TopkSelect op{.mask = o.output("mask", {40, 1}, DType::kU32),
                     .indices = {},
                     .counts = {},
                     .scores = o.input("scores", {40, 40}),
                     .k = 3};
  EXPECT_THROW(run(test.ctx, op), Error);
  op.mask = {};
  op.indices = o.output("indices", {40, 2}, DType::kI32);
  EXPECT_THROW(run(test.ctx, op), Error);
}

}  // namespace
}  // namespace glmtune::test
