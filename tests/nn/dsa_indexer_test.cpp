// DsaIndexer against its formula written out query by query (model.md 3.5), in double.
#include "nn/dsa_indexer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/module_check.h"

namespace glmtune::nn {
namespace {

using test::ModuleCheck;
using Row = std::vector<double>;

constexpr std::int64_t C = 6, kQueryRank = 5, kHeads = 8, kDim = 8, kRope = 4, kTopk = 5;
constexpr double kTheta = 50, kEps = 1e-6;

DsaIndexer make_indexer(ModuleCheck& m, ops::RopeLayout layout) {
  return {.index_n_heads = kHeads,
          .index_head_dim = kDim,
          .index_topk = kTopk,
          .qk_rope_head_dim = kRope,
          .rope_theta = kTheta,
          .rope_layout = layout,
          .k_norm_eps = kEps,
          .wq_b = {m.frozen("wq_b", {kHeads * kDim, kQueryRank})},
          .wk = {m.frozen("wk", {kDim, C})},
          .k_norm_weight = m.frozen("k_norm.weight", {kDim}, 0.3, 1),
          .k_norm_bias = m.frozen("k_norm.bias", {kDim}),
          .weights_proj = {m.frozen("weights_proj", {kHeads, C})}};
}

Row times(const Tensor& w, const Tensor& x, std::int64_t t) {
  Row y(static_cast<std::size_t>(w.size(0)));
  for (std::int64_t n = 0; n < w.size(0); ++n)
    for (std::int64_t k = 0; k < w.size(1); ++k)
      y[static_cast<std::size_t>(n)] += w.row<double>(n)[k] * x.row<double>(t)[k];
  return y;
}

// Rotates the first kRope of kDim values from `at` on.
void rotate(Row& x, std::size_t at, std::int64_t position, ops::RopeLayout layout) {
  for (std::size_t j = 0; j < kRope / 2; ++j) {
    const double angle =
        static_cast<double>(position) * std::pow(kTheta, -2.0 * static_cast<double>(j) / kRope);
    const bool interleaved = layout == ops::RopeLayout::kInterleaved;
    double& a = x[at + (interleaved ? 2 * j : j)];
    double& b = x[at + (interleaved ? 2 * j + 1 : j + kRope / 2)];
    const double rotated = a * std::cos(angle) - b * std::sin(angle);
    b = b * std::cos(angle) + a * std::sin(angle);
    a = rotated;
  }
}

Row normalised(Row k, const Tensor& weight, const Tensor& bias) {
  const double n = static_cast<double>(k.size());
  const double mean = std::accumulate(k.begin(), k.end(), 0.0) / n;
  double variance = 0;
  for (const double x : k) variance += (x - mean) * (x - mean) / n;
  for (std::size_t i = 0; i < k.size(); ++i)
    k[i] =
        (k[i] - mean) / std::sqrt(variance + kEps) * weight.as<double>()[i] + bias.as<double>()[i];
  return k;
}

// The keys query t of the document [begin, ..) selects, ascending and relative to `begin`.
std::vector<std::int32_t> keys_by_formula(const DsaIndexer& x, const Tensor& q_res, const Tensor& h,
                                          std::int64_t begin, std::int64_t t) {
  Row q = times(x.wq_b.weight.value, q_res, begin + t);
  for (std::int64_t i = 0; i < kHeads; ++i)
    rotate(q, static_cast<std::size_t>(i * kDim), t, x.rope_layout);
  const Row w = times(x.weights_proj.weight.value, h, begin + t);
  Row scores;
  for (std::int64_t s = 0; s <= t; ++s) {
    Row k = normalised(times(x.wk.weight.value, h, begin + s), x.k_norm_weight.value,
                       x.k_norm_bias.value);
    rotate(k, 0, s, x.rope_layout);
    double score = 0;
    for (std::size_t i = 0; i < kHeads; ++i) {
      double dot = 0;
      for (std::size_t d = 0; d < kDim; ++d) dot += q[i * kDim + d] * k[d];
      score += w[i] / std::sqrt(double{kHeads}) * std::max(0.0, dot / std::sqrt(double{kDim}));
    }
    scores.push_back(score);
  }
  std::vector<std::int32_t> keys(scores.size());
  std::iota(keys.begin(), keys.end(), 0);
  std::stable_sort(keys.begin(), keys.end(), [&](std::int32_t a, std::int32_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  keys.resize(std::min<std::size_t>(keys.size(), kTopk));
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<std::int32_t> masked_keys(const Selection& s, std::int64_t row) {
  std::vector<std::int32_t> keys;
  for (std::int32_t k = 0; k < 32 * s.mask.size(1); ++k)
    if ((s.mask.row<std::uint32_t>(row)[k / 32] >> (k % 32) & 1) != 0) keys.push_back(k);
  return keys;
}

std::vector<std::int32_t> listed_keys(const Selection& s, std::int64_t row) {
  const std::int32_t* first = s.indices.row<std::int32_t>(row);
  return {first, first + s.counts.as<std::int32_t>()[row]};
}

// user_reports 24: of its own document, never a later one, wherever the document lies.
TEST(DsaIndexer, SelectsTheKeysOfTheFormulaInEveryDocumentOfAPackedRow) {
  for (const auto layout : {ops::RopeLayout::kInterleaved, ops::RopeLayout::kHalfSplit}) {
    ModuleCheck m(3);
    const DsaIndexer indexer = make_indexer(m, layout);
    // Documents of 40 and 11 tokens: one gathers, one is masked; 5 and 2 do not need the indexer.
    const PackedRow row = m.row({5, 40, 11, 2}, 19, {.index_topk = kTopk, .masked_max_tokens = 11});
    const Tensor q_res = m.input("q_res", {row.tokens, kQueryRank}),
                 h = m.input("h", {row.tokens, C});
    const Selection selection = indexer.allocate(*m.ctx().saved, row);
    indexer.select(m.ctx(), selection, q_res, h, row);
    ASSERT_EQ(selection.counts.count(), 40);
    for (std::int64_t t = 0; t < 40; ++t)
      EXPECT_EQ(listed_keys(selection, t), keys_by_formula(indexer, q_res, h, 5, t)) << t;
    for (std::int64_t t = 0; t < 11; ++t)
      EXPECT_EQ(masked_keys(selection, 45 + t), keys_by_formula(indexer, q_res, h, 45, t)) << t;
  }
}

TEST(DsaIndexer, AllocatesNothingForDocumentsThatSeeAllTheirKeys) {
  ModuleCheck m(4);
  const DsaIndexer indexer = make_indexer(m, ops::RopeLayout::kInterleaved);
  const PackedRow row = m.row({5, 3}, 19, {.index_topk = kTopk});
  const std::size_t before = m.ctx().saved->mark();
  const Selection selection = indexer.allocate(*m.ctx().saved, row);
  EXPECT_EQ(m.ctx().saved->mark(), before);
  EXPECT_FALSE(selection.mask.defined() || selection.indices.defined());
}

TEST(DsaIndexer, ForcedPathsTakeEveryKeyOfAShortDocument) {
  for (const AttentionPath path : {AttentionPath::kMasked, AttentionPath::kGather}) {
    ModuleCheck m(5);
    const DsaIndexer indexer = make_indexer(m, ops::RopeLayout::kInterleaved);
    const PackedRow row =
        m.row({4}, 19, {.index_topk = kTopk, .force = true, .force_short = true, .forced = path});
    const Tensor q_res = m.input("q_res", {4, kQueryRank}), h = m.input("h", {4, C});
    const Selection selection = indexer.allocate(*m.ctx().saved, row);
    indexer.select(m.ctx(), selection, q_res, h, row);
    for (std::int64_t t = 0; t < 4; ++t) {
      std::vector<std::int32_t> all(static_cast<std::size_t>(t) + 1);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(
          path == AttentionPath::kMasked ? masked_keys(selection, t) : listed_keys(selection, t),
          all);
    }
  }
}

}  // namespace
}  // namespace glmtune::nn
