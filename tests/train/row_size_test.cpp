#include "train/row_size.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "models/glm_moe_dsa.h"
#include "support/tiny_model.h"
#include "train/memory_estimate.h"
#include "train/pass_options.h"

namespace glmtune::train {
namespace {

using Ints = std::vector<std::int32_t>;

std::vector<Ints> bounds_of(const RowSize& size, const nn::AttentionSettings& attention) {
  std::vector<Ints> out;
  for (const SampleRow& row : largest_rows(size, attention)) out.push_back(row.cu_seqlens);
  return out;
}

TEST(RowSize, DocumentsStayWithinPacksAndTheirLength) {
  const nn::AttentionSettings dense{.index_topk = 100};
  const auto first = [&](const RowSize& size) { return bounds_of(size, dense).front(); };
  EXPECT_EQ(first({.packs = 2, .tokens = 7, .longest_document = 3}),
            (Ints{0, 3, 6, 7, 10, 13, 14}));
  EXPECT_EQ(first({.packs = 2, .tokens = 5}), (Ints{0, 5, 10}));
  EXPECT_EQ(first({.tokens = 4, .longest_document = 9}), (Ints{0, 4}));
  EXPECT_EQ(SampleRow({7, 7}).ids.size(), 14U);
  EXPECT_EQ(bounds_of({.tokens = 7, .most_documents = 3}, dense),
            (std::vector<Ints>{{0, 7}, {0, 5, 6, 7}}));
}

TEST(RowSize, GatheredDocumentsStandBesideShortAndMaskedOnes) {
  const nn::AttentionSettings attention{.index_topk = 4, .masked_max_tokens = 8};
  EXPECT_EQ(
      bounds_of({.packs = 2, .tokens = 32, .most_documents = 2}, attention),
      (std::vector<Ints>{{0, 32, 64},
                         {0, 32, 63, 64},
                         {0, 32, 56, 64},
                         {0, 31, 32, 63, 64},
                         {0, 28, 32, 60, 64},  // the longest dense ones, the longest masked ones
                         {0, 24, 32, 56, 64}}));
  // Nothing stands beside the only document of a pack.
  EXPECT_EQ(bounds_of({.tokens = 32, .most_documents = 1}, attention),
            (std::vector<Ints>{{0, 32}}));
  // 20 + 12 tokens: both on the gather path. 20 + 4 would leave four beside it; 15 + 9 would not.
  EXPECT_EQ(bounds_of({.tokens = 32, .longest_document = 20, .most_documents = 1}, attention),
            (std::vector<Ints>{{0, 20, 32}}));
  EXPECT_EQ(bounds_of({.tokens = 24, .longest_document = 20, .most_documents = 1}, attention),
            (std::vector<Ints>{{0, 20, 24}, {0, 15, 24}, {0, 16, 24}}));
}

TEST(RowSize, TheOnlyDocumentOfAnotherPackMayBeAShortOne) {
  const nn::AttentionSettings attention{.index_topk = 4, .masked_max_tokens = 8};
  EXPECT_EQ(bounds_of({.packs = 3, .tokens = 9, .most_documents = 1}, attention),
            (std::vector<Ints>{{0, 9, 18, 27}, {0, 9, 18, 26}}));
  EXPECT_EQ(bounds_of({.packs = 3, .tokens = 8, .most_documents = 1}, attention),
            (std::vector<Ints>{{0, 8, 16, 24}}));
}

// Sizes at which no tensor is padded to 256 bytes and no document to whole tiles.
models::GlmConfig small_heads() {
  models::GlmConfig config = test::tiny_config();
  config.num_attention_heads = 64;
  config.kv_lora_rank = 8;
  config.qk_nope_head_dim = config.v_head_dim = 4;
  config.index_topk = 4;
  return config;
}

// GLM-5's attention on a narrow model, whose experts take too little to hide it.
models::GlmConfig glm_heads() {
  models::GlmConfig config = test::tiny_config();
  config.num_attention_heads = 64;
  config.hidden_size = 256;
  config.q_lora_rank = 256;
  config.kv_lora_rank = 512;
  config.qk_nope_head_dim = 192;
  config.qk_rope_head_dim = 64;
  config.v_head_dim = 256;
  config.index_head_dim = 128;
  config.index_topk = 2048;
  return config;
}

struct Planned {
  Planned(const models::GlmConfig& config, DType dtype, Device target, std::int64_t masked,
          ActivationCheckpointing how)
      : engine(models::make_model(config, dtype, 1e-5),
               {.device = Device::kMeta, .gradients = true, .target = target}) {
    recipe.distributed.activation_checkpointing = how;
    engine.model().attention().masked_max_tokens = masked;
  }
  void covers(const RowSize& size, const std::vector<std::int64_t>& documents) {
    const MemoryPlan planned = plan_rows(engine, recipe, size);
    const MemoryPlan row = engine.plan(SampleRow(documents).input(), training_pass(recipe));
    EXPECT_LE(row.saved, planned.saved) << testing::PrintToString(documents);
    EXPECT_LE(row.scratch, planned.scratch) << testing::PrintToString(documents);
  }
  Recipe recipe;
  Engine engine;
};

constexpr ActivationCheckpointing kAllCheckpointing[] = {ActivationCheckpointing::kOff,
                                                         ActivationCheckpointing::kSelective,
                                                         ActivationCheckpointing::kFull};

class Below {
 public:
  std::int64_t operator()(std::int64_t n) {
    return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(n));
  }

 private:
  std::mt19937_64 rng_{5};
};

// Rows as a data set may lay them: any cut of each pack, which may be shorter than the longest,
// into documents of the allowed length; or one document a pack. shortest: of a pack's tokens.
std::vector<std::int64_t> random_row(Below& below, std::int64_t tokens, bool alone,
                                     std::int64_t few, RowSize& size) {
  size = {.packs = 1 + below(3), .tokens = tokens};
  std::vector<std::int64_t> documents;
  for (std::int64_t pack = 0; pack < size.packs; ++pack) {
    std::int64_t count = 0;
    const std::int64_t end = below(2) == 0 ? 1 + below(tokens) : tokens;
    for (std::int64_t at = 0; at < end; ++count) {
      const std::int64_t n =
          alone ? end : std::min(end - at, 1 + below(below(2) == 0 ? few : tokens));
      documents.push_back(n);
      at += n;
    }
    size.most_documents = std::max(size.most_documents, count);
  }
  size.longest_document = *std::max_element(documents.begin(), documents.end());
  return documents;
}

TEST(RowSize, NoRowTakesMoreThanThePlan) {
  Below below;
  RowSize size;
  for (const ActivationCheckpointing how : kAllCheckpointing) {
    Planned plan(small_heads(), DType::kF32, Device::kCpu, 64, how);
    for (int round = 0; round < 60; ++round) {
      const bool alone = below(3) == 0;
      const std::int64_t tokens = alone ? 65 + below(64) : 256 + 64 * below(3);
      const auto documents = random_row(below, tokens, alone, 8, size);
      plan.covers(size, documents);
    }
  }
}

TEST(RowSize, NoRowTakesMoreThanThePlanForAGpu) {
  Below below;
  RowSize size;
  for (const ActivationCheckpointing how : kAllCheckpointing) {
    Planned plan(glm_heads(), DType::kBF16, Device::kCuda, 8192, how);
    for (int round = 0; round < 60; ++round) {
      const std::int64_t tokens = 2000 + below(12'000);
      const auto documents = random_row(below, tokens, below(3) == 0, 3000, size);
      plan.covers(size, documents);
    }
    // The parts of the rope keys' gradients fall to half where twice as many heads share one.
    plan.covers({.tokens = 11'046, .longest_document = 2671, .most_documents = 8},
                {2136, 2155, 1154, 78, 173, 2671, 2619, 60});
  }
}

}  // namespace
}  // namespace glmtune::train
