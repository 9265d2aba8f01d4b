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
      (std::vector<Ints>{{0, 32, 64}, {0, 32, 63, 64}, {0, 32, 56, 64}, {0, 31, 32, 63, 64}}));
  // Nothing stands beside the only document of a pack.
  EXPECT_EQ(bounds_of({.tokens = 32, .most_documents = 1}, attention),
            (std::vector<Ints>{{0, 32}}));
  // 20 + 12 tokens: both on the gather path. 20 + 4 would leave four beside it; 15 + 9 would not.
  EXPECT_EQ(bounds_of({.tokens = 32, .longest_document = 20, .most_documents = 1}, attention),
            (std::vector<Ints>{{0, 20, 32}}));
  EXPECT_EQ(bounds_of({.tokens = 24, .longest_document = 20, .most_documents = 1}, attention),
            (std::vector<Ints>{{0, 20, 24}, {0, 15, 24}}));
}

TEST(RowSize, TheOnlyDocumentOfAnotherPackMayBeAShortOne) {
  const nn::AttentionSettings attention{.index_topk = 4, .masked_max_tokens = 8};
  EXPECT_EQ(bounds_of({.packs = 3, .tokens = 9, .most_documents = 1}, attention),
            (std::vector<Ints>{{0, 9, 18, 27}, {0, 9, 18, 26}}));
  EXPECT_EQ(bounds_of({.packs = 3, .tokens = 8, .most_documents = 1}, attention),
            (std::vector<Ints>{{0, 8, 16, 24}}));
}

// Rows as a data set may lay them: any cut of each pack, which may be shorter than the longest,
// into documents of the allowed length; or one document a pack.
TEST(RowSize, NoRowTakesMoreThanThePlan) {
  models::GlmConfig config = test::tiny_config();
  // Sizes at which no tensor is padded to 256 bytes and no document to whole tiles.
  config.num_attention_heads = 64;
  config.kv_lora_rank = 8;
  config.qk_nope_head_dim = config.v_head_dim = 4;
  config.index_topk = 4;
  std::mt19937_64 rng(5);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n));
  };
  for (const ActivationCheckpointing how :
       {ActivationCheckpointing::kOff, ActivationCheckpointing::kSelective,
        ActivationCheckpointing::kFull}) {
    Recipe recipe;
    recipe.distributed.activation_checkpointing = how;
    Engine engine(models::make_model(config, DType::kF32, 1e-5),
                  {.device = Device::kMeta, .gradients = true});
    engine.model().attention().masked_max_tokens = 64;
    for (int round = 0; round < 60; ++round) {
      const bool alone = below(3) == 0;
      const std::int64_t packs = 1 + below(3);
      const std::int64_t tokens = alone ? 65 + below(64) : 256 + 64 * below(3);
      std::vector<std::int64_t> documents;
      RowSize size{.packs = packs, .tokens = tokens};
      for (std::int64_t pack = 0; pack < packs; ++pack) {
        std::int64_t count = 0;
        const std::int64_t end = below(2) == 0 ? 1 + below(tokens) : tokens;
        for (std::int64_t at = 0; at < end; ++count) {
          const std::int64_t n =
              alone ? end : std::min(end - at, 1 + below(below(2) == 0 ? 8 : tokens));
          documents.push_back(n);
          at += n;
        }
        size.most_documents = std::max(size.most_documents, count);
      }
      size.longest_document = *std::max_element(documents.begin(), documents.end());
      const MemoryPlan planned = plan_rows(engine, recipe, size);
      const MemoryPlan row = engine.plan(SampleRow(documents).input(), training_pass(recipe));
      EXPECT_LE(row.saved, planned.saved) << testing::PrintToString(documents);
      EXPECT_LE(row.scratch, planned.scratch) << testing::PrintToString(documents);
    }
  }
}

}  // namespace
}  // namespace glmtune::train
