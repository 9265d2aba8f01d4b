#include "train/memory_estimate.h"

#include <gtest/gtest.h>

#include "models/glm_moe_dsa.h"
#include "support/tiny_model.h"
#include "train/engine.h"
#include "train/optimizer.h"

namespace glmtune::train {
namespace {

TEST(MemoryEstimate, EqualsWhatARunAllocates) {
  const models::GlmConfig config = test::tiny_config();
  Recipe recipe;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const MemoryEstimate e =
        estimate_memory(config, recipe, dtype, SampleRow(1, 37), {}, Device::kCpu);
    Engine engine(models::make_model(config, dtype, 1e-5), {.gradients = true});
    const Optimizer optimizer(engine.model(), recipe.optimizer, 1, Device::kCpu);
    const SampleRow row(1, 37);
    engine.run(row.input(), {.backward = true});
    EXPECT_EQ(e.saved, engine.peak().saved);
    EXPECT_EQ(e.scratch, engine.peak().scratch);
    // Buffers round each tensor up to 256 bytes.
    const std::uint64_t tensors = 200;
    EXPECT_LE(e.weights, engine.parameters().value_bytes());
    EXPECT_GE(e.weights + 256 * tensors, engine.parameters().value_bytes());
    EXPECT_LE(e.gradients, engine.parameters().gradient_bytes());
    EXPECT_GE(e.optimizer + 3 * 256 * tensors, optimizer.state_bytes());
  }
}

TEST(MemoryEstimate, DocumentsOfALargestRowStayWithinPacksAndTheirLength) {
  EXPECT_EQ(SampleRow(2, 7, 3).cu_seqlens, (std::vector<std::int32_t>{0, 3, 6, 7, 10, 13, 14}));
  EXPECT_EQ(SampleRow(2, 5).cu_seqlens, (std::vector<std::int32_t>{0, 5, 10}));
  EXPECT_EQ(SampleRow(1, 4, 9).cu_seqlens, (std::vector<std::int32_t>{0, 4}));
  EXPECT_EQ(SampleRow(2, 7, 3).ids.size(), 14U);
}

TEST(MemoryEstimate, AvailableMemoryIsPlausible) {
  EXPECT_GT(available_memory(Device::kCpu), std::uint64_t{1} << 20);
}

TEST(MemoryEstimate, SharesOfManyRanksAddUp) {
  const models::GlmConfig config = test::tiny_config();
  const Recipe recipe;
  const SampleRow row(1, 16);
  const auto one = estimate_memory(config, recipe, DType::kBF16, row, {}, Device::kCpu);
  const auto four = estimate_memory(config, recipe, DType::kBF16, row,
                                    {.expert_ranks = 4, .dense_ranks = 4}, Device::kCpu);
  EXPECT_NEAR(static_cast<double>(four.optimizer), static_cast<double>(one.optimizer) / 4, 200);
}

}  // namespace
}  // namespace glmtune::train
