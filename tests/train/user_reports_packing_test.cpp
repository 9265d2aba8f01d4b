// What users report of packing, the loss's normalisation and the optimizer (user_reports.md 2b), as
// far as one rank can show it and no other test does: 21 in glm_moe_dsa_test.cpp, 23 and 25 in
// packed_dataset_test.cpp, 24 in dsa_indexer_test.cpp, 27 to 29 in training_loop_test.cpp, 32 in
// trainer_settings_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "data/pack.h"
#include "models/glm_moe_dsa.h"
#include "support/tiny_model.h"
#include "train/engine.h"
#include "train/optimizer.h"

namespace glmtune::train {
namespace {

std::unique_ptr<Engine> tiny_engine(DType dtype = DType::kF64) {
  auto engine = std::make_unique<Engine>(models::make_model(test::tiny_config(), dtype, 1e-5),
                                         Engine::Settings{.gradients = true});
  test::randomize(engine->model(), 3);
  return engine;
}

data::Pack random_pack(std::int32_t length, std::uint64_t seed, bool labelled = true) {
  const test::TinyRow row = test::random_row({length}, 19, seed);
  data::Pack p{.ids = row.ids, .labels = row.labels, .bounds = row.cu_seqlens};
  if (!labelled) std::fill(p.labels.begin(), p.labels.end(), data::kNoLabel);
  return p;
}

double loss_of(Engine& engine, const data::Pack& pack) {
  engine.parameters().zero_gradients(engine.context().stream);
  engine.run({.ids = pack.ids, .labels = pack.labels, .cu_seqlens = pack.bounds},
             {.backward = true});
  return engine.take_loss();
}

// 22: positions restart in every document.
TEST(PackingReports, PositionsRestartInEveryDocument) {
  const std::vector<std::int32_t> ids{1, 2, 3, 4, 5}, labels(5, -100), bounds{0, 3, 5};
  const nn::RowLayout row(ids, labels, bounds, 19, {.index_topk = 4});
  // Ids come first, then their positions.
  const auto positions = row.numbers().subspan(5, 5);
  EXPECT_EQ(std::vector<std::int32_t>(positions.begin(), positions.end()),
            (std::vector<std::int32_t>{0, 1, 2, 0, 1}));
}

// 26: a document without a label contributes nothing, to the loss and to every gradient.
TEST(PackingReports, ADocumentWithoutLabelsContributesNothing) {
  const auto engine = tiny_engine();
  const data::Pack labelled = random_pack(6, 1);
  const double alone = loss_of(*engine, labelled);
  const auto expected = test::gradients(engine->model(), nullptr);
  data::Pack both = labelled;
  both.append(random_pack(5, 2, false));
  EXPECT_NEAR(loss_of(*engine, both), alone, 1e-12 * alone);
  const auto found = test::gradients(engine->model(), nullptr);
  for (std::size_t p = 0; p < expected.size(); ++p)
    for (std::size_t i = 0; i < expected[p].size(); ++i)
      ASSERT_NEAR(found[p][i], expected[p][i], 1e-12);
}

// 31: with g = 1 and lr 1e-5 a weight of 1 falls by 1e-5 a step; the default keeps that in bf16
// models too, where no single step reaches the next number.
TEST(PackingReports, SmallUpdatesAreNotRoundedAway) {
  const auto weight_after = [](MasterWeights master, int steps) {
    const auto engine = tiny_engine(DType::kBF16);
    Tensor weight;
    engine->model().visit_parameters([&](nn::Parameter& p) {
      if (!p.grad.defined()) return;
      const bool narrow = p.grad.dtype == DType::kBF16;
      for (std::int64_t i = 0; i < p.grad.count(); ++i)
        narrow ? p.grad.as<BFloat16>()[i] = BFloat16(1.0f) : p.grad.as<float>()[i] = 1;
      if (p.name != "model.norm.weight") return;
      weight = p.value;
      for (std::int64_t i = 0; i < weight.count(); ++i) weight.as<BFloat16>()[i] = BFloat16(1.0f);
    });
    OptimizerSettings settings;
    settings.master_weights = master;
    if (master == MasterWeights::kBf16)
      settings.exp_avg_dtype = settings.exp_avg_sq_dtype = DType::kBF16;
    Optimizer optimizer(engine->model(), settings, 1, Device::kCpu);
    engine->reserve({.saved = 0, .scratch = std::size_t{1} << 20});
    optimizer.gradient_norm(engine->context(), 0);
    for (int step = 1; step <= steps; ++step) optimizer.update(engine->context(), 1e-5, 0, step);
    return static_cast<double>(static_cast<float>(weight.as<BFloat16>()[0]));
  };
  // 1 - 400e-5 = 0.996, whose nearest bfloat16 is 0.99609375.
  EXPECT_EQ(weight_after(MasterWeights::kFp32, 400), 0.99609375);
  EXPECT_EQ(weight_after(MasterWeights::kBf16, 100), 1.0);
}

}  // namespace
}  // namespace glmtune::train
