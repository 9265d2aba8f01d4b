#include "models/known_configs.h"

#include <gtest/gtest.h>

#include "models/glm_config.h"

namespace glmtune::models {
namespace {

struct Counts {
  std::int64_t main = 0, with_mtp = 0, tensors = 0, routed_experts = 0, f32 = 0;
};

Counts count(const std::string& id) {
  const GlmConfig config = parse_glm_config(*known_config(id), id);
  Counts out;
  for (const TensorSpec& tensor : expected_tensors(config)) {
    // The published totals count the router's 256 biases apart.
    if (tensor.always_f32) out.f32 += tensor.count();
    const std::int64_t n = tensor.always_f32 ? 0 : tensor.count();
    if (!tensor.pass_through) out.main += n;
    out.with_mtp += n;
    ++out.tensors;
    if (!tensor.pass_through && tensor.name.find(".experts.") != std::string::npos)
      out.routed_experts += n;
  }
  return out;
}

TEST(KnownConfigs, ParameterCountsAreThePublishedOnes) {
  for (const char* id : {"zai-org/GLM-5", "zai-org/GLM-5.1", "zai-org/GLM-5-FP8"}) {
    const Counts counts = count(id);
    EXPECT_EQ(counts.main + 75 * 256, 743911218432) << id;
    EXPECT_EQ(counts.with_mtp + 76 * 256, 753864139008) << id;
    EXPECT_EQ(counts.tensors, 59870) << id;
  }
  for (const char* id : {"zai-org/GLM-5.2", "zai-org/GLM-5.3", "zai-org/GLM-5.3-BF16"}) {
    const Counts counts = count(id);
    EXPECT_EQ(counts.main + 75 * 256, 743377019904) << id;
    EXPECT_EQ(counts.with_mtp, 753329921024) << id;
    EXPECT_EQ(counts.f32, 19456) << id;
    EXPECT_EQ(counts.tensors, 59585) << id;
    EXPECT_EQ(counts.routed_experts, 724775731200) << id;
  }
}

TEST(KnownConfigs, SharedIndexersAreWhereTheReleasesHaveThem) {
  const GlmConfig config = parse_glm_config(*known_config("zai-org/GLM-5.2"), "5.2");
  std::vector<int> full;
  for (int layer = 0; layer < 78; ++layer)
    if (config.is_full(layer)) full.push_back(layer);
  EXPECT_EQ(full.size(), 21u);
  EXPECT_EQ(full[3], 6);
  EXPECT_EQ(full.back(), 74);
  EXPECT_EQ(config.rope_theta, 8e6);
  EXPECT_EQ(config.qk_rope_head_dim, 64);
}

TEST(KnownConfigs, OnlyFp8ReleasesAreQuantised) {
  EXPECT_TRUE(parse_glm_config(*known_config("zai-org/GLM-5.3"), "x").quantization_config);
  EXPECT_FALSE(parse_glm_config(*known_config("zai-org/GLM-5.2"), "x").quantization_config);
}

TEST(KnownConfigs, OthersAreUnknown) {
  EXPECT_FALSE(known_config("zai-org/GLM-4.5").has_value());
  EXPECT_NE(other_architecture("zai-org/GLM-5.3-Flash"), "");
  EXPECT_EQ(other_architecture("zai-org/GLM-5.3"), "");
}

}  // namespace
}  // namespace glmtune::models
