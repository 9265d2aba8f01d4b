#include "train/flops.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace glmtune::train {
namespace {

models::GlmConfig glm5(std::int64_t mtp_layers) {
  using models::IndexerType;
  using models::MlpType;
  models::GlmConfig c;
  c.vocab_size = 154880;
  c.hidden_size = 6144;
  c.num_hidden_layers = 78;
  c.num_nextn_predict_layers = mtp_layers;
  c.num_attention_heads = 64;
  c.q_lora_rank = 2048;
  c.kv_lora_rank = 512;
  c.qk_nope_head_dim = 192;
  c.qk_rope_head_dim = 64;
  c.v_head_dim = 256;
  c.index_n_heads = 32;
  c.index_head_dim = 128;
  c.index_topk = 2048;
  c.indexer_types.assign(78, IndexerType::kFull);
  c.mlp_layer_types.assign(78, MlpType::kSparse);
  for (std::size_t i = 0; i < 3; ++i) c.mlp_layer_types[i] = MlpType::kDense;
  c.intermediate_size = 12288;
  c.moe_intermediate_size = 2048;
  c.n_routed_experts = 256;
  c.num_experts_per_tok = 8;
  c.n_shared_experts = 1;
  return c;
}

// Integers computed with AutoModel's own function.
TEST(Flops, AutomodelFormulaGivesItsGoldenIntegers) {
  struct Golden {
    std::int64_t tokens;
    double with_mtp, without;
  };
  const Golden goldens[] = {{512, 146603407048704., 141656208703488.},
                            {1024, 294224721346560., 284317439754240.},
                            {2048, 592521071689728., 572654968897536.},
                            {4096, 1201328659365888., 1161390295351296.},
                            {8192, 2467803382677504., 2387102020927488.},
                            {32768, 11434719065407488., 11092122409107456.}};
  for (const Golden& g : goldens) {
    EXPECT_EQ(automodel_flops(glm5(1), g.tokens), g.with_mtp) << g.tokens;
    EXPECT_EQ(automodel_flops(glm5(0), g.tokens), g.without) << g.tokens;
  }
}

// A small model without an indexer (recipes.md 5.1): AutoModel counts half the square of its keys.
TEST(Flops, AutomodelFormulaOfASmallModelWithoutAnIndexer) {
  models::GlmConfig c = glm5(0);
  c.vocab_size = 131072;
  c.hidden_size = 4096;
  c.num_hidden_layers = 16;
  c.num_attention_heads = 32;
  c.q_lora_rank = 512;
  c.kv_lora_rank = 256;
  c.qk_nope_head_dim = 128;
  c.v_head_dim = 128;
  c.index_n_heads = c.index_head_dim = 0;
  c.index_topk = 512;
  c.mlp_layer_types.resize(16);
  c.mlp_layer_types[2] = models::MlpType::kSparse;
  c.intermediate_size = 8192;
  c.moe_intermediate_size = 1024;
  c.num_experts_per_tok = 4;
  EXPECT_EQ(automodel_flops(c, 1024), 12962211299328.);
}

// recipes.md 3.7: the row as it is given.
TEST(Flops, APackCountsAsAWholeRowInAutoModelsFormula) {
  const data::Pack pack{.ids = {1, 2, 3}, .labels = {2, 3, data::kNoLabel}, .bounds = {0, 3}};
  EXPECT_EQ(automodel_tokens(pack, 4096), 4096);
  EXPECT_EQ(automodel_tokens(pack, 0), 3);
}

TEST(Flops, TrueCountOfOneLongDocumentMatchesTheClosedForm) {
  // Model specification, section 6.2: 266.9 GFLOP a token at 4096 with every indexer full.
  const std::int32_t cu[] = {0, 4096};
  EXPECT_NEAR(model_flops(glm5(1), cu, 4096) / 4096 / 1e9, 266.9, 0.15);
}

TEST(Flops, ShortDocumentsDoNoIndexerWork) {
  models::GlmConfig one_indexer = glm5(0);
  std::fill(one_indexer.indexer_types.begin() + 1, one_indexer.indexer_types.end(),
            models::IndexerType::kShared);
  const std::int32_t cu[] = {0, 1024, 2048};
  EXPECT_EQ(model_flops(glm5(0), cu, 100), model_flops(one_indexer, cu, 100));
}

}  // namespace
}  // namespace glmtune::train
