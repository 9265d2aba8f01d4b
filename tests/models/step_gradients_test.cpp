// A step's gradients: the first backward writes each, later ones add, what none began is zero. The
// sums are those of gradients that start as zeros, to the bit (but for the sign of a zero),
// whatever the memory held.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "models/glm_moe_dsa.h"
#include "support/tiny_model.h"
#include "train/engine.h"

namespace glmtune {
namespace {

using models::PassOptions;
using models::Recompute;
using test::TinyRow;
using train::Engine;

using Gradients = std::vector<std::vector<double>>;
using Change = std::function<void(models::CausalLm&)>;

Engine make_engine(const models::GlmConfig& config, DType dtype, std::uint64_t seed,
                   const Change& change = {}) {
  auto model = std::make_unique<models::GlmMoeDsa>(config, dtype, 1e-5);
  if (change) change(*model);
  Engine engine(std::move(model), {.gradients = true});
  test::randomize(engine.model(), seed);
  return engine;
}

void poison(models::CausalLm& model) {
  model.visit_parameters([](nn::Parameter& p) {
    if (p.grad.defined()) std::memset(p.grad.data, 0xff, p.grad.bytes());
  });
}

Gradients step(Engine& engine, const std::vector<TinyRow>& rows, bool zeros, PassOptions options) {
  poison(engine.model());
  if (zeros)
    engine.parameters().zero_gradients();
  else
    engine.parameters().start_gradients();
  options.backward = true;
  for (const TinyRow& r : rows) engine.run({r.ids, r.labels, r.cu_seqlens}, options);
  engine.parameters().complete_gradients();
  return test::gradients(engine.model(), nullptr);
}

void expect_as_added_to_zeros(Engine& engine, const std::vector<TinyRow>& rows,
                              const PassOptions& options = {}) {
  EXPECT_EQ(step(engine, rows, false, options), step(engine, rows, true, options));
}

// Expanded keys with and without a mask, and gathered ones, in one row; rows of one token, which
// leave experts without rows.
std::vector<std::vector<TinyRow>> steps() {
  const TinyRow all_paths = test::random_row({10, 2, 19}, 19, 1);
  const TinyRow gathered = test::random_row({17, 21}, 19, 2), token = test::random_row({1}, 19, 3);
  return {{all_paths}, {token}, {gathered}, {gathered, token, all_paths}, {token, token, gathered}};
}

class StepGradients : public testing::TestWithParam<DType> {};

TEST_P(StepGradients, AreThoseOfAddingToZerosInEveryModeOfRecompute) {
  Engine engine = make_engine(test::tiny_config(), GetParam(), 4);
  engine.model().attention().masked_max_tokens = 12;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull})
    for (const std::vector<TinyRow>& rows : steps())
      expect_as_added_to_zeros(engine, rows, {.recompute = recompute});
}

TEST_P(StepGradients, OfATiedHeadAreWrittenByTheHeadAndAddedToByTheEmbedding) {
  models::GlmConfig config = test::tiny_config();
  config.tie_word_embeddings = true;
  Engine engine = make_engine(config, GetParam(), 5);
  for (const std::vector<TinyRow>& rows : steps()) expect_as_added_to_zeros(engine, rows);
}

TEST_P(StepGradients, OfRoutersThatChooseByChanceAreZero) {
  Engine engine = make_engine(test::tiny_config(), GetParam(), 8);
  engine.model().visit_routers([](std::int64_t, nn::Router& r) { r.fake_noise = 0.5; });
  expect_as_added_to_zeros(engine, {test::random_row({9}, 19, 9)});
  int routers = 0;
  engine.model().visit_parameters([&](nn::Parameter& p) {
    if (p.name.find("mlp.gate.weight") == std::string::npos) return;
    ++routers;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(p.grad.bytes()); ++i)
      ASSERT_EQ(p.grad.as<std::uint8_t>()[i], 0) << p.name;
  });
  EXPECT_EQ(routers, 4);
}

TEST_P(StepGradients, OfFrozenNeighboursDoNotExist) {
  Engine engine = make_engine(test::tiny_config(), GetParam(), 10, [](models::CausalLm& model) {
    int number = 0;
    model.visit_parameters(
        [&](nn::Parameter& p) { p.trainable = p.trainable && ++number % 3 != 0; });
  });
  for (const std::vector<TinyRow>& rows : steps()) expect_as_added_to_zeros(engine, rows);
  engine.model().visit_parameters([](nn::Parameter& p) {
    EXPECT_EQ(p.grad.defined(), p.trainable) << p.name;
    EXPECT_EQ(p.grad_begun != nullptr, p.trainable) << p.name;
  });
}

INSTANTIATE_TEST_SUITE_P(DTypes, StepGradients,
                         testing::Values(DType::kF64, DType::kF32, DType::kBF16),
                         [](const auto& p) { return std::string(name_of(p.param)); });

void expect_zeros(Engine& engine) {
  for (const std::vector<double>& g : test::gradients(engine.model(), nullptr))
    for (const double x : g) ASSERT_EQ(x, 0);
}

TEST(StepGradientsOfNothing, AreZeroAfterADryRunOrNoRun) {
  Engine engine = make_engine(test::tiny_config(), DType::kF32, 11);
  const TinyRow row = test::random_row({9}, 19, 12);
  poison(engine.model());
  engine.parameters().start_gradients();
  engine.plan({row.ids, row.labels, row.cu_seqlens}, {.backward = true});
  engine.parameters().complete_gradients();
  expect_zeros(engine);
}

TEST(StepGradientsOfNothing, AreZeroWithoutLabels) {
  Engine engine = make_engine(test::tiny_config(), DType::kF32, 13);
  TinyRow row = test::random_row({9}, 19, 14);
  std::fill(row.labels.begin(), row.labels.end(), -100);
  step(engine, {row, row}, false, {});
  expect_zeros(engine);
}

}  // namespace
}  // namespace glmtune
