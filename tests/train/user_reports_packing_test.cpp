// What users report of packing, the loss's normalisation and the optimizer (user_reports.md 2b), as
// far as one rank can show it and no other test does: 21 in glm_moe_dsa_test.cpp, 23 and 25 in
// packed_dataset_test.cpp, 24 in dsa_indexer_test.cpp, 27 to 29 in training_loop_test.cpp, 32 in
// trainer_settings_test.cpp. Of 28 and 30 the sums that ranks would add up.
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

// Losses and gradients of several engines, added up as ranks add them: no share is divided.
struct Sum {
  double loss = 0;
  std::vector<std::vector<double>> gradients;

  void add(const data::Pack& share) {
    const auto engine = tiny_engine();
    loss += loss_of(*engine, share);
    const auto of = test::gradients(engine->model(), nullptr);
    if (gradients.empty()) {
      gradients = of;
      return;
    }
    for (std::size_t p = 0; p < of.size(); ++p)
      for (std::size_t i = 0; i < of[p].size(); ++i) gradients[p][i] += of[p][i];
  }
  void expect_equal(const Sum& other) const {
    EXPECT_NEAR(loss, other.loss, 1e-12 * std::abs(other.loss));
    for (std::size_t p = 0; p < gradients.size(); ++p)
      for (std::size_t i = 0; i < gradients[p].size(); ++i)
        ASSERT_NEAR(gradients[p][i], other.gradients[p][i], 1e-11);
  }
};

// 28, and recipes.md section 5, 12: eight sequences on 1, 2, 4 or 8 data-parallel ranks, whose
// shares hold different numbers of labels, have one sum; it is divided once, by the labels of all.
TEST(PackingReports, SharesOfDataParallelRanksAddUpToTheBatch) {
  std::vector<data::Pack> packs;
  for (std::int32_t i = 0; i < 8; ++i)
    packs.push_back(random_pack(3 + 2 * i, static_cast<std::uint64_t>(i), i != 5));
  Sum whole;
  data::Pack all = packs[0];
  for (std::size_t i = 1; i < packs.size(); ++i) all.append(packs[i]);
  whole.add(all);
  for (const std::size_t ranks : {2U, 4U, 8U}) {
    Sum sum;
    std::int64_t labels = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      data::Pack share;
      for (std::size_t i = rank; i < packs.size(); i += ranks) share.append(packs[i]);
      labels += share.label_tokens();
      sum.add(share);
    }
    EXPECT_EQ(labels, all.label_tokens());
    sum.expect_equal(whole);
  }
}

// 30: context-parallel ranks hold slices of one sequence, of which only the first has labels here.
// A rank's loss is that of its own slice; those without a label add zeros.
TEST(PackingReports, SlicesOfContextParallelRanksAddUpAlsoWhereOneHasNoLabel) {
  data::Pack pack = random_pack(12, 7);
  std::fill(pack.labels.begin() + 3, pack.labels.end(), data::kNoLabel);
  Sum whole;
  whole.add(pack);
  for (const std::size_t ranks : {2U, 4U}) {
    Sum sum;
    const std::size_t slice = pack.ids.size() / ranks;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      data::Pack own = pack;  // keys of the other ranks are seen, their losses are not its own
      for (std::size_t t = 0; t < own.labels.size(); ++t)
        if (t / slice != rank) own.labels[t] = data::kNoLabel;
      Sum alone;
      alone.add(own);
      if (rank > 0) {
        EXPECT_EQ(alone.loss, 0);
        for (const auto& gradient : alone.gradients)
          for (const double g : gradient) ASSERT_EQ(g, 0);
      }
      sum.add(own);
    }
    sum.expect_equal(whole);
  }
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
