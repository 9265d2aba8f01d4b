// MlaAttention and DecoderLayer against central differences in double, on the three attention
// paths, with packed documents on either side of index_topk and eight index heads.
#include <gtest/gtest.h>

#include "nn/decoder_layer.h"
#include "support/module_check.h"

namespace glmtune::nn {
namespace {

using test::ModuleCheck;

constexpr std::int64_t C = 6;                            // hidden size
constexpr std::int64_t kQueryRank = 5, kLatentRank = 4;  // q_lora_rank, kv_lora_rank
constexpr std::int64_t kHeads = 2, kNope = 3, kRope = 4, kV = 2;
constexpr std::int64_t kTopk = 4, kIndexHeads = 8, kIndexDim = 6;

RmsNorm make_norm(ModuleCheck& m, const std::string& name, std::int64_t n) {
  return {.weight = m.parameter(name, {n}, 0.3, 1), .eps = 1e-3};
}

MlaAttention make_attention(ModuleCheck& m) {
  return {.num_attention_heads = kHeads,
          .qk_nope_head_dim = kNope,
          .qk_rope_head_dim = kRope,
          .v_head_dim = kV,
          .q_lora_rank = kQueryRank,
          .kv_lora_rank = kLatentRank,
          .rope_theta = 100,
          .q_a_proj = {m.parameter("q_a_proj", {kQueryRank, C})},
          .q_a_layernorm = make_norm(m, "q_a_layernorm", kQueryRank),
          .q_b_proj = {m.parameter("q_b_proj", {kHeads * (kNope + kRope), kQueryRank}, 0.6)},
          .kv_a_proj_with_mqa = {m.parameter("kv_a_proj_with_mqa", {kLatentRank + kRope, C})},
          .kv_a_layernorm = make_norm(m, "kv_a_layernorm", kLatentRank),
          .kv_b_proj = {m.parameter("kv_b_proj", {kHeads * (kNope + kV), kLatentRank}, 0.6)},
          .o_proj = {m.parameter("o_proj", {C, kHeads * kV})}};
}

DsaIndexer make_indexer(ModuleCheck& m) {
  return {.index_n_heads = kIndexHeads,
          .index_head_dim = kIndexDim,
          .index_topk = kTopk,
          .qk_rope_head_dim = kRope,
          .rope_theta = 100,
          .wq_b = {m.frozen("wq_b", {kIndexHeads * kIndexDim, kQueryRank})},
          .wk = {m.frozen("wk", {kIndexDim, C})},
          .k_norm_weight = m.frozen("k_norm.weight", {kIndexDim}, 0.3, 1),
          .k_norm_bias = m.frozen("k_norm.bias", {kIndexDim}),
          .weights_proj = {m.frozen("weights_proj", {kIndexHeads, C})}};
}

struct PathCase {
  const char* name;
  AttentionSettings settings;
  std::int64_t dense, masked, gather;  // documents of {9, 3, 6, 1, 4} that go each way
};

std::ostream& operator<<(std::ostream& out, const PathCase& c) {
  return out << c.name;
}

const PathCase kPaths[] = {
    {"Dense", {.index_topk = 16}, 5, 0, 0},
    {"Masked", {.index_topk = kTopk}, 3, 2, 0},
    {"Gather", {.index_topk = kTopk, .masked_max_tokens = 4}, 3, 0, 2},
    {"AllThree", {.index_topk = kTopk, .masked_max_tokens = 6}, 3, 1, 1},
    {"GatherOnly",
     {.index_topk = kTopk, .force = true, .force_short = true, .forced = AttentionPath::kGather},
     0,
     0,
     5},
    {"MaskedOnly",
     {.index_topk = kTopk, .force = true, .force_short = true, .forced = AttentionPath::kMasked},
     0,
     5,
     0}};

class AttentionPaths : public testing::TestWithParam<PathCase> {
 protected:
  PackedRow make_row(ModuleCheck& m) const {
    const PackedRow row = m.row({9, 3, 6, 1, 4}, 19, GetParam().settings);
    EXPECT_EQ(row.dense.count, GetParam().dense);
    EXPECT_EQ(row.masked.count, GetParam().masked);
    EXPECT_EQ(static_cast<std::int64_t>(row.gather.size()), GetParam().gather);
    return row;
  }
};

TEST_P(AttentionPaths, MlaGradientsAgreeWithCentralDifferences) {
  ModuleCheck m(1);
  const MlaAttention attention = make_attention(m);
  const DsaIndexer indexer = make_indexer(m);
  const PackedRow row = make_row(m);
  const Tensor h = m.input("h", {row.tokens, C}), residual = m.input("residual", {row.tokens, C}),
               y = m.make({row.tokens, C}), dy = m.make({row.tokens, C});
  // Chosen once: differences of the loss never cross a tie of the index scores.
  const Selection selection = indexer.allocate(*m.ctx().saved, row);
  indexer.select(m.ctx(), selection, attention.query_latent(m.ctx(), h, nullptr, Keep::kNothing), h,
                 row);
  MlaAttention::Saved saved;
  const auto forward = [&](bool keep) {
    const Scope scratch(*m.ctx().scratch);
    MlaAttention::Saved* s = keep ? &saved : nullptr;
    const Keep how = keep ? Keep::kAll : Keep::kNothing;
    const Tensor q_res = attention.query_latent(m.ctx(), h, s, how);
    attention.forward(m.ctx(), y, h, q_res, residual, row, selection, s, how);
  };
  EXPECT_EQ(m.check(y, dy, forward,
                    [&] {
                      attention.backward(m.ctx(), m.gradient("h"), dy, row, selection, saved);
                      copy_bytes(m.gradient("residual"), dy);
                    }),
            "");
}

Mlp make_mlp(ModuleCheck& m, const std::string& prefix, std::int64_t inner) {
  return {.gate_proj = {m.parameter(prefix + "gate_proj", {inner, C})},
          .up_proj = {m.parameter(prefix + "up_proj", {inner, C})},
          .down_proj = {m.parameter(prefix + "down_proj", {C, inner})}};
}

DecoderLayer make_layer(ModuleCheck& m, bool sparse) {
  DecoderLayer layer;
  layer.input_layernorm = make_norm(m, "input_layernorm", C);
  layer.post_attention_layernorm = make_norm(m, "post_attention_layernorm", C);
  layer.self_attn = make_attention(m);
  layer.indexer = make_indexer(m);
  if (!sparse) {
    layer.mlp = make_mlp(m, "", 5);
    return layer;
  }
  MoeMlp& moe = layer.moe.emplace();
  moe.router.num_experts_per_tok = 2;
  moe.router.routed_scaling_factor = 2.5;
  moe.router.gate.weight = m.parameter("gate", {4, C});
  moe.router.e_score_correction_bias.value = m.make({4}, DType::kF32);
  moe.experts.gate_up_proj = m.parameter("gate_up_proj", {4, 6, C});
  moe.experts.down_proj = m.parameter("down_proj", {4, C, 3});
  moe.shared_experts = make_mlp(m, "shared_experts.", 3);
  return layer;
}

TEST(DecoderLayer, KeepsSomethingExactlyWhereItIsGivenAPlace) {
  ModuleCheck m(2);
  const DecoderLayer layer = make_layer(m, false);
  const PackedRow row = m.row({5, 3}, 19, {.index_topk = 16});
  const Tensor x = m.input("x", {row.tokens, C}), y = m.make({row.tokens, C});
  const LayerDecisions decisions{.selection = layer.indexer->allocate(*m.ctx().saved, row),
                                 .routing = {}};
  DecoderLayer::Saved saved;
  EXPECT_THROW(layer.forward(m.ctx(), y, x, row, decisions, {}, &saved), Error);
  EXPECT_THROW(layer.forward(m.ctx(), y, x, row, decisions, {.keep = Keep::kAll}, nullptr), Error);
}

// Dense and MoE layers, the gradient written over dy as the layer loop does; all kept at once, and
// a selection first and the rest by a second forward.
TEST_P(AttentionPaths, DecoderLayerGradientsAgreeWithCentralDifferences) {
  for (const auto& [sparse, first] :
       {std::pair(false, Keep::kAll), std::pair(true, Keep::kAll), std::pair(true, Keep::kSelected),
        std::pair(false, Keep::kSelected), std::pair(true, Keep::kNothing)}) {
    ModuleCheck m(2);
    const DecoderLayer layer = make_layer(m, sparse);
    const PackedRow row = make_row(m);
    const Tensor x = m.input("x", {row.tokens, C}), y = m.make({row.tokens, C}),
                 dy = m.make({row.tokens, C});
    LayerDecisions decisions{.selection = layer.indexer->allocate(*m.ctx().saved, row),
                             .routing = {}};
    if (sparse) decisions.routing = layer.moe->allocate_routing(*m.ctx().saved, row.tokens);
    layer.forward(m.ctx(), y, x, row, decisions, {}, nullptr);
    DecoderLayer::Saved saved;
    EXPECT_EQ(m.check(
                  y, dy,
                  [&](bool keep) {
                    const Keep how = keep ? first : Keep::kNothing;
                    layer.forward(m.ctx(), y, x, row, decisions, {.replay = true, .keep = how},
                                  how == Keep::kNothing ? nullptr : &saved);
                    if (keep && how != Keep::kAll)
                      layer.forward(m.ctx(), {}, x, row, decisions,
                                    {.replay = true, .keep = Keep::kAll}, &saved);
                  },
                  [&] {
                    layer.backward(m.ctx(), dy, dy, row, decisions, saved);
                    copy_bytes(m.gradient("x"), dy);
                  }),
              "")
        << (sparse ? "MoE" : "dense MLP");
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, AttentionPaths, testing::ValuesIn(kPaths),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace glmtune::nn
