#include "train/memory_estimate.h"

#include <gtest/gtest.h>

#include "base/cat.h"
#include "io/files.h"
#include "models/glm_moe_dsa.h"
#include "support/tiny_model.h"
#include "train/engine.h"
#include "train/optimizer.h"
#include "train/pass_options.h"

namespace glmtune::train {
namespace {

TEST(MemoryEstimate, EqualsWhatARunAllocates) {
  const models::GlmConfig config = test::tiny_config();
  Recipe recipe;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const MemoryEstimate e =
        estimate_memory(config, recipe, dtype, RowSize{.tokens = 37}, {}, Device::kCpu);
    Engine engine(models::make_model(config, dtype, 1e-5), {.gradients = true});
    const Optimizer optimizer(engine.model(), recipe.optimizer, 1, Device::kCpu);
    const SampleRow row({37});
    engine.run(row.input(), {.backward = true});
    EXPECT_EQ(e.saved, engine.peak().saved);
    EXPECT_EQ(e.scratch, engine.peak().scratch);
    // Buffers round each tensor up to 256 bytes.
    const std::uint64_t rounding = 256 * models::parameters_of(engine.model()).size();
    EXPECT_LE(e.weights, engine.parameters().value_bytes());
    EXPECT_GE(e.weights + rounding, engine.parameters().value_bytes());
    EXPECT_LE(e.gradients, engine.parameters().gradient_bytes());
    EXPECT_GE(e.gradients + rounding, engine.parameters().gradient_bytes());
    EXPECT_LE(e.optimizer, optimizer.state_bytes());
    EXPECT_GE(e.optimizer + 3 * rounding, optimizer.state_bytes());  // m, v, remainder
  }
}

TEST(MemoryEstimate, FollowsTheAttentionBackendAndTheCheckpointingOfTheRecipe) {
  const models::GlmConfig config = test::tiny_config();
  // Beyond the mask's own limit: gathered, unless dense is forced.
  const SampleRow row({9000});
  const RowSize size{.tokens = 9000, .most_documents = 1};
  std::vector<std::uint64_t> saved;
  for (const AttentionBackend attn : {AttentionBackend::kNative, AttentionBackend::kDense})
    for (const ActivationCheckpointing how :
         {ActivationCheckpointing::kOff, ActivationCheckpointing::kSelective,
          ActivationCheckpointing::kFull}) {
      Recipe recipe;
      recipe.model.backend.attn = attn;
      recipe.distributed.activation_checkpointing = how;
      auto model = models::make_model(config, DType::kF32, 1e-5);
      set_backend(recipe, *model);
      Engine engine(std::move(model), {.device = Device::kMeta, .gradients = true});
      const MemoryPlan plan = engine.plan(row.input(), training_pass(recipe));
      const MemoryEstimate e = estimate_memory(config, recipe, DType::kF32, size, {}, Device::kCpu);
      EXPECT_EQ(e.saved, plan.saved);
      EXPECT_EQ(e.scratch, plan.scratch);
      saved.push_back(e.saved);
    }
  for (const std::size_t i : {0, 1, 3, 4}) EXPECT_GT(saved[i], saved[i + 1]);
  EXPECT_NE(saved[0], saved[3]);
}

// Its gates have neither gradients nor optimizer state, and the routers keep no scores.
TEST(MemoryEstimate, KnowsAFakeGate) {
  const models::GlmConfig config = test::tiny_config();
  Recipe recipe;
  const auto estimate = [&] {
    return estimate_memory(config, recipe, DType::kF32, RowSize{.tokens = 37}, {}, Device::kCpu);
  };
  const MemoryEstimate trained = estimate();
  recipe.model.backend.fake_balanced_gate = true;
  const MemoryEstimate fake = estimate();
  auto model = models::make_model(config, DType::kF32, 1e-5);
  set_backend(recipe, *model);
  Engine engine(std::move(model), {.gradients = true});
  std::int64_t gates = 0;
  engine.model().visit_routers(
      [&](std::int64_t, nn::Router& r) { gates += r.gate.weight.value.count(); });
  engine.run(SampleRow({37}).input(), training_pass(recipe));
  EXPECT_GT(gates, 0);
  EXPECT_EQ(fake.trained, trained.trained - gates);
  EXPECT_EQ(fake.gradients, trained.gradients - 4 * static_cast<std::uint64_t>(gates));
  EXPECT_EQ(fake.saved, engine.peak().saved);
  EXPECT_EQ(fake.scratch, engine.peak().scratch);
  EXPECT_LT(fake.saved, trained.saved);
}

TEST(MemoryEstimate, CoversValidationRowsLongerThanTheTrainingRows) {
  const models::GlmConfig config = test::tiny_config();
  const RunRows rows(RowSize{.tokens = 7}, {RowSize{.tokens = 11}, {.packs = 3, .tokens = 400}});
  const MemoryEstimate e = estimate_memory(config, {}, DType::kF32, rows, {}, Device::kCpu);
  Engine engine(models::make_model(config, DType::kF32, 1e-5), {.gradients = true});
  engine.run(SampleRow({7}).input(), training_pass({}));
  for (const SampleRow& row : {SampleRow({11}), SampleRow({400, 400, 400})})
    engine.run(row.input(), {});
  EXPECT_EQ(e.saved, engine.peak().saved);
  EXPECT_EQ(e.scratch, engine.peak().scratch);
}

TEST(MemoryEstimate, AdviceNamesTheKeysThatWouldHelpAndWhatTheyLeadTo) {
  const models::GlmConfig config = test::tiny_config();
  Recipe recipe;
  recipe.step_scheduler.local_batch_size = 4;
  const auto row_of = [](std::int64_t packs) { return RowSize{.packs = packs, .tokens = 64}; };
  const auto advice = [&](std::uint64_t available) {
    return memory_advice(config, recipe, DType::kBF16, row_of, Device::kCpu, available);
  };
  const std::uint64_t now =
      estimate_memory(config, recipe, DType::kBF16, row_of(4), {}, Device::kCpu).total();
  Recipe low = recipe;
  low.optimizer.master_weights = MasterWeights::kBf16;
  low.optimizer.exp_avg_dtype = low.optimizer.exp_avg_sq_dtype = DType::kBF16;
  const std::uint64_t less =
      estimate_memory(config, low, DType::kBF16, row_of(4), {}, Device::kCpu).total();
  ASSERT_LT(less, now);
  const std::string key = "optimizer.master_weights: bf16_stochastic (";
  EXPECT_NE(advice(less).find(cat(key, io::human_bytes(less), ", fits)")), std::string::npos)
      << advice(less);
  EXPECT_NE(advice(0).find(cat(key, io::human_bytes(less), ")")), std::string::npos) << advice(0);
  EXPECT_NE(advice(0).find("step_scheduler.local_batch_size: 1"), std::string::npos);
  EXPECT_NE(advice(0).find("all of these"), std::string::npos);
  recipe = low;
  recipe.step_scheduler.local_batch_size = 1;
  recipe.distributed.activation_checkpointing = ActivationCheckpointing::kFull;
  EXPECT_EQ(advice(0), "");
}

TEST(MemoryEstimate, AvailableMemoryIsPlausible) {
  EXPECT_GT(available_memory(Device::kCpu), std::uint64_t{1} << 20);
}

TEST(MemoryEstimate, SharesOfManyRanksAddUp) {
  const models::GlmConfig config = test::tiny_config();
  const Recipe recipe;
  const RowSize row{.tokens = 16};
  const auto one = estimate_memory(config, recipe, DType::kBF16, row, {}, Device::kCpu);
  const auto four = estimate_memory(config, recipe, DType::kBF16, row,
                                    {.expert_ranks = 4, .dense_ranks = 4}, Device::kCpu);
  // Each parameter's share is rounded down.
  const auto parameters = static_cast<double>(
      models::parameters_of(*models::make_model(config, DType::kBF16, 1e-5)).size());
  EXPECT_NEAR(static_cast<double>(four.optimizer), static_cast<double>(one.optimizer) / 4,
              parameters);
}

}  // namespace
}  // namespace glmtune::train
