#include "train/lora_size.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/glm_moe_dsa.h"
#include "models/known_configs.h"
#include "support/tiny_model.h"
#include "train/memory_estimate.h"

namespace glmtune::train {
namespace {

Tensor shape_of(Shape shape) {
  return Tensor::dense(nullptr, shape, DType::kBF16, Device::kMeta);
}

nn::Parameter linear(const std::string& module, std::int64_t out, std::int64_t in) {
  return {.name = module + ".weight", .value = shape_of({out, in})};
}

// recipes.md section 5, 14: E 4, H 16, I 32, r 4: A (4,16,4), B (4,4,64), down A (4,32,4), B
// (4,4,16).
TEST(LoraSize, ExpertsHaveAnAdapterEach) {
  LoraSize size({.target_modules = {"*.mlp.experts"}, .dim = 4}, 2);
  const std::string experts = "model.layers.3.mlp.experts.";
  EXPECT_EQ(size.parameters_on({.name = experts + "gate_up_proj", .value = shape_of({4, 64, 16})}),
            4 * 16 * 4 + 4 * 4 * 64);
  EXPECT_EQ(size.parameters_on({.name = experts + "down_proj", .value = shape_of({4, 16, 32})}),
            4 * 32 * 4 + 4 * 4 * 16);
  EXPECT_EQ(size.parameters_on(linear("model.layers.0.mlp.up_proj", 64, 16)), 0);
  EXPECT_TRUE(size.unmatched().empty());
}

// recipes.md section 5, 14: 16 // 2 = 8, 16 // 3 = 5, 1 // 2 is an error.
TEST(LoraSize, RankScalingDividesTheExpertsRankOnly) {
  const nn::Parameter down{.name = "model.layers.3.mlp.experts.down_proj",
                           .value = shape_of({4, 16, 32})};
  const LoraSettings settings{.target_modules = {"*"}, .dim = 16, .moe_rank_scaling = true};
  EXPECT_EQ(LoraSize(settings, 2).parameters_on(down), 4 * 8 * (16 + 32));
  EXPECT_EQ(LoraSize(settings, 3).parameters_on(down), 4 * 5 * (16 + 32));
  EXPECT_EQ(LoraSize(settings, 3).parameters_on(linear("lm_head", 64, 16)), 16 * (64 + 16));
  EXPECT_THROW(LoraSize({.dim = 1, .moe_rank_scaling = true}, 2), Error);
}

TEST(LoraSize, NamesAreMatchedAsAutoModelMatchesThem) {
  const auto hit = [](const LoraSettings& settings, const std::string& module) {
    return LoraSize(settings, 2).parameters_on(linear(module, 8, 8)) > 0;
  };
  const std::string q = "model.layers.10.self_attn.q_a_proj";
  EXPECT_TRUE(hit({}, q));  // *_proj
  EXPECT_FALSE(hit({}, "lm_head"));
  EXPECT_TRUE(hit({.target_modules = {"q_a_proj"}}, q));
  EXPECT_FALSE(hit({.target_modules = {"a_proj"}}, q));
  EXPECT_TRUE(hit({.target_modules = {"*a_proj"}}, q));
  EXPECT_FALSE(hit({.target_modules = {"*.layers.2.*"}}, q));
  EXPECT_TRUE(hit({.target_modules = {"*.layers.1.*"}}, q));  // ".*" takes the dot's place
  EXPECT_TRUE(hit({.target_modules = {"*.layers.10.*.q_a_proj"}}, q));
  EXPECT_TRUE(hit({.target_modules = {"*.(q_a|q_b)_proj"}}, q));
  EXPECT_TRUE(hit({.match_all_linear = true}, "lm_head"));
  EXPECT_FALSE(hit({.exclude_modules = {"lm_head"}}, "lm_head"));
  EXPECT_TRUE(hit({.exclude_modules = {"lm_head"}}, q));
  // Neither is a linear layer.
  EXPECT_FALSE(hit({.target_modules = {"*"}}, "model.embed_tokens"));
  EXPECT_FALSE(hit({.target_modules = {"*"}}, "model.layers.3.mlp.gate"));
  LoraSize size({.target_modules = {"*.q_a_proj", "*.qkv_proj"}}, 2);
  size.parameters_on(linear(q, 8, 8));
  EXPECT_EQ(size.unmatched(), std::vector<std::string>{"*.qkv_proj"});
  EXPECT_THROW(LoraSize({.target_modules = {"*.(q_a"}}, 2), Error);
}

// recipes.md 1.9: 75 x 256 x 32 x 18,432 parameters for the experts of the GLM-5.2 recipe alone.
TEST(LoraSize, TheExpertsOfTheReleasedModelTakeWhatTheRecipesPageSays) {
  const models::GlmConfig config =
      models::parse_glm_config(*models::known_config("zai-org/GLM-5.2"), "GLM-5.2");
  LoraSize size({.target_modules = {"*.mlp.experts"}, .dim = 32}, config.num_experts_per_tok);
  std::int64_t parameters = 0;
  models::make_model(config, DType::kBF16, 1e-5)->visit_parameters([&](nn::Parameter& p) {
    parameters += size.parameters_on(p);
  });
  EXPECT_EQ(parameters, std::int64_t{75} * 256 * 32 * 18432);
}

TEST(LoraSize, AFrozenModelHasNoGradientsBesideItsAdapters) {
  const models::GlmConfig config = test::tiny_config();
  Recipe recipe;
  const auto estimate = [&] {
    return estimate_memory(config, recipe, DType::kBF16, RowSize{.tokens = 37}, {}, Device::kCpu);
  };
  const MemoryEstimate full = estimate();
  recipe.peft = LoraSettings{.target_modules = {"*.o_proj"}, .dim = 2};
  const MemoryEstimate lora = estimate();
  const std::int64_t trained =
      config.num_hidden_layers * 2 *
      (config.hidden_size + config.num_attention_heads * config.v_head_dim);
  EXPECT_EQ(lora.trained, trained);
  EXPECT_EQ(lora.parameters, full.parameters);
  const auto n = static_cast<std::uint64_t>(trained);
  EXPECT_EQ(lora.weights, full.weights + 2 * n);
  EXPECT_EQ(lora.gradients, 4 * n);
  EXPECT_EQ(lora.optimizer, 10 * n);
}

}  // namespace
}  // namespace glmtune::train
