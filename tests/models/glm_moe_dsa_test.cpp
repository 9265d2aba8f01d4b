// The whole model: gradients against central differences in double, the attention paths against
// each other, packing against documents alone, recompute against keeping everything.
#include "models/glm_moe_dsa.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "support/gradcheck.h"
#include "support/tiny_model.h"
#include "train/engine.h"

namespace glmtune {
namespace {

using models::GlmMoeDsa;
using models::PassOptions;
using models::Recompute;
using test::TinyRow;
using train::Engine;
using train::RowInput;

RowInput input(const TinyRow& r) {
  return {r.ids, r.labels, r.cu_seqlens};
}

Engine make_engine(const models::GlmConfig& config, DType dtype, std::uint64_t seed) {
  Engine reference(std::make_unique<GlmMoeDsa>(config, DType::kF64, 1e-5), {});
  test::randomize(reference.model(), seed);
  Engine engine(std::make_unique<GlmMoeDsa>(config, dtype, 1e-5), {.gradients = true});
  test::copy_parameters(engine.model(), reference.model());
  return engine;
}

struct Result {
  double loss;
  std::vector<std::vector<double>> gradients;
};

Result run(Engine& engine, const TinyRow& row, PassOptions options = {}) {
  engine.parameters().zero_gradients();
  options.backward = true;
  engine.run(input(row), options);
  return {engine.take_loss(), test::gradients(engine.model(), nullptr)};
}

using Gradients = std::vector<std::vector<double>>;

void expect_close(const Gradients& got, const Gradients& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const test::Difference d = test::compare(got[i], want[i]);
    EXPECT_TRUE(d.finite && d.rel_l2 <= tolerance) << "gradient " << i << ": " << describe(d);
  }
}

void expect_close(const Result& got, const Result& want, double tolerance) {
  EXPECT_NEAR(got.loss, want.loss, tolerance * std::abs(want.loss));
  expect_close(got.gradients, want.gradients, tolerance);
}

// Every gradient (24 elements spread over each; tests/nn checks all of every module) against
// differences of the loss. The model chooses keys and experts anew at every call: the step is small
// enough that no choice changes.
void check_gradients(Engine& engine, const TinyRow& row) {
  const double scale = 0.37;
  engine.parameters().zero_gradients();
  engine.run(input(row), {.backward = true, .grad_scale = scale});
  engine.take_loss();
  std::vector<test::GradientPair> pairs;
  engine.model().visit_parameters([&](nn::Parameter& p) {
    if (p.trainable) pairs.push_back({p.name, p.value, p.grad});
  });
  const auto loss = [&] {
    engine.run(input(row), {});
    return scale * engine.take_loss();
  };
  for (const test::GradientError& e : test::gradcheck(loss, pairs, 24, 1e-4))
    EXPECT_LE(e.rel_l2, 1e-8) << e.name;
}

class ModelGradients : public testing::TestWithParam<nn::AttentionPath> {};

TEST_P(ModelGradients, AgreeWithCentralDifferences) {
  Engine engine = make_engine(test::tiny_config(), DType::kF64, 3);
  engine.model().attention().force = true;
  engine.model().attention().forced = GetParam();
  check_gradients(engine, test::random_row({9, 3, 6}, 19, 5));
}

TEST(ModelGradientsTied, AgreeWithCentralDifferences) {
  models::GlmConfig config = test::tiny_config();
  config.tie_word_embeddings = true;
  config.num_hidden_layers = 2;
  config.n_shared_experts = 0;
  config.norm_topk_prob = false;
  Engine engine = make_engine(config, DType::kF64, 4);
  check_gradients(engine, test::random_row({7}, 19, 6));
}

INSTANTIATE_TEST_SUITE_P(Paths, ModelGradients,
                         testing::Values(nn::AttentionPath::kMasked, nn::AttentionPath::kGather),
                         [](const auto& p) {
                           return p.param == nn::AttentionPath::kMasked ? "Masked" : "Gather";
                         });

class ModelPrecision : public testing::TestWithParam<DType> {
 protected:
  // Sums in another order, through five layers: some hundreds of half steps of the arithmetic.
  double tolerance() const { return GetParam() == DType::kF64 ? 1e-12 : 1e-5; }
};

TEST_P(ModelPrecision, AttentionPathsAgree) {
  Engine engine = make_engine(test::tiny_config(), GetParam(), 7);
  const TinyRow row = test::random_row({13, 4, 1, 22}, 19, 8);
  const Result by_choice = run(engine, row);
  nn::AttentionSettings& settings = engine.model().attention();
  settings.force = true;
  for (const bool force_short : {false, true})
    for (const nn::AttentionPath path : {nn::AttentionPath::kMasked, nn::AttentionPath::kGather}) {
      settings.force_short = force_short;
      settings.forced = path;
      expect_close(run(engine, row), by_choice, tolerance());
    }
  settings.force = false;
  settings.masked_max_tokens = 15;  // one row, three paths
  expect_close(run(engine, row), by_choice, tolerance());
}

// user_reports 21.
TEST_P(ModelPrecision, PackedRowEqualsItsDocumentsAlone) {
  Engine engine = make_engine(test::tiny_config(), GetParam(), 9);
  const TinyRow row = test::random_row({11, 3, 17}, 19, 10);
  const Result packed = run(engine, row);
  engine.parameters().zero_gradients();
  for (std::size_t d = 0; d + 1 < row.cu_seqlens.size(); ++d) {
    const auto begin = static_cast<std::size_t>(row.cu_seqlens[d]);
    const auto n = static_cast<std::size_t>(row.cu_seqlens[d + 1]) - begin;
    const std::vector<std::int32_t> bounds{0, static_cast<std::int32_t>(n)};
    engine.run(
        {std::span(row.ids).subspan(begin, n), std::span(row.labels).subspan(begin, n), bounds},
        {.backward = true});
  }
  expect_close({engine.take_loss(), test::gradients(engine.model(), nullptr)}, packed, tolerance());
}

class ModelBits : public ModelPrecision {};

TEST_P(ModelBits, RecomputeGivesTheSameBits) {
  Engine engine = make_engine(test::tiny_config(), GetParam(), 11);
  nn::AttentionSettings& settings = engine.model().attention();
  settings.masked_max_tokens = 12;
  const TinyRow row = test::random_row({10, 2, 19}, 19, 12);  // masked, dense, gather
  const auto same = [&] {
    const Result kept = run(engine, row);
    for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
      const Result again = run(engine, row, {.recompute = recompute});
      EXPECT_EQ(kept.loss, again.loss);
      EXPECT_EQ(kept.gradients, again.gradients);
    }
  };
  same();
  settings.force = true;
  for (const bool force_short : {false, true})
    for (const nn::AttentionPath path : {nn::AttentionPath::kMasked, nn::AttentionPath::kGather}) {
      settings.force_short = force_short;
      settings.forced = path;
      same();
    }
}

TEST_P(ModelBits, DryRunPlansThePeakToTheByte) {
  Engine engine = make_engine(test::tiny_config(), GetParam(), 13);
  engine.model().attention().masked_max_tokens = 12;
  const TinyRow row = test::random_row({10, 2, 19}, 19, 14);
  std::vector<std::size_t> saved;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    const PassOptions options{.backward = true, .recompute = recompute};
    const train::MemoryPlan plan = engine.plan(input(row), options);
    engine.reserve(plan);
    engine.reset_peak();
    engine.run(input(row), options);
    EXPECT_EQ(engine.peak().saved, plan.saved);
    EXPECT_EQ(engine.peak().scratch, plan.scratch);
    saved.push_back(plan.saved);
  }
  EXPECT_GT(saved[0], saved[1]);
  EXPECT_GT(saved[1], saved[2]);
}

INSTANTIATE_TEST_SUITE_P(DTypes, ModelBits, testing::Values(DType::kF64, DType::kF32, DType::kBF16),
                         [](const auto& p) { return std::string(name_of(p.param)); });
INSTANTIATE_TEST_SUITE_P(DTypes, ModelPrecision, testing::Values(DType::kF64, DType::kF32),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST(Model, GradientsAddUpOverMicroBatches) {
  Engine engine = make_engine(test::tiny_config(), DType::kF64, 15);
  const TinyRow row = test::random_row({9}, 19, 16);
  const Result once = run(engine, row);
  engine.run(input(row), {.backward = true});
  Gradients doubled = once.gradients;
  for (std::vector<double>& g : doubled)
    for (double& x : g) x *= 2;
  expect_close(test::gradients(engine.model(), nullptr), doubled, 1e-13);
}

TEST(Model, RowWithoutLabelsGivesZeroGradientsAndNoNan) {
  Engine engine = make_engine(test::tiny_config(), DType::kF32, 17);
  TinyRow row = test::random_row({9}, 19, 18);
  std::fill(row.labels.begin(), row.labels.end(), -100);
  const Result result = run(engine, row);
  EXPECT_EQ(result.loss, 0);
  for (const auto& g : result.gradients)
    for (const double x : g) EXPECT_EQ(x, 0);
}

TEST(Model, CountsExpertLoadOncePerTokenAlsoUnderRecompute) {
  const models::GlmConfig config = test::tiny_config();
  Engine engine(std::make_unique<GlmMoeDsa>(config, DType::kF32, 1e-5),
                {.gradients = true, .expert_load = true});
  test::randomize(engine.model(), 19);
  const TinyRow row = test::random_row({9, 4}, 19, 20);
  engine.run(input(row), {.backward = true, .recompute = Recompute::kFull, .count_load = true});
  int routers = 0;
  engine.model().visit_routers([&](std::int64_t, nn::Router& r) {
    ++routers;
    std::int64_t total = 0;
    for (std::int64_t e = 0; e < r.load.count(); ++e) total += r.load.as<std::int64_t>()[e];
    EXPECT_EQ(total, 13 * config.num_experts_per_tok);
  });
  EXPECT_GT(routers, 0);
}

TEST(Model, TokenOutsideTheVocabularyIsNamed) {
  Engine engine = make_engine(test::tiny_config(), DType::kF32, 21);
  TinyRow row = test::random_row({5}, 19, 22);
  row.ids[3] = 19;
  try {
    engine.run(input(row), {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("token id 19 at row 3"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace glmtune
