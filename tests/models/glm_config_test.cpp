#include "models/glm_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/error.h"

namespace glmtune::models {
namespace {

// config.json in the style of GLM-5 (no lists, no IndexShare keys).
io::Value glm5() {
  return io::parse_json(R"({
    "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "dtype": "bfloat16",
    "vocab_size": 154880, "hidden_size": 6144, "num_hidden_layers": 78, "num_nextn_predict_layers": 1,
    "num_attention_heads": 64, "num_key_value_heads": 64, "q_lora_rank": 2048, "kv_lora_rank": 512,
    "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "qk_head_dim": 256, "v_head_dim": 256,
    "head_dim": 64, "attention_bias": false, "attention_dropout": 0.0,
    "max_position_embeddings": 202752, "rope_interleave": true, "indexer_rope_interleave": true,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1000000},
    "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048,
    "intermediate_size": 12288, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3,
    "moe_layer_freq": 1, "n_group": 1, "topk_group": 1, "scoring_func": "sigmoid",
    "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 2.5,
    "hidden_act": "silu", "rms_norm_eps": 1e-05, "initializer_range": 0.02,
    "tie_word_embeddings": false, "use_cache": true, "eos_token_id": [154820, 154827, 154829],
    "pad_token_id": 154820, "ep_size": 1, "pretraining_tp": 1})",
                        "glm5");
}

// GLM-5.2 and 5.3 style, IndexShare by the freq and offset keys.
io::Value glm52() {
  io::Value v = glm5();
  v.set("head_dim", 192);
  v.set("max_position_embeddings", 1048576);
  v.find("rope_parameters")->set("rope_theta", 8000000);
  v.set("index_topk_freq", 4);
  v.set("index_skip_topk_offset", 3);
  v.set("index_topk_pattern", io::Value());
  v.set("index_share_for_mtp_iteration", true);
  v.set("moe_router_dtype", "float32");
  return v;
}

std::string message_of(const io::Value& v) {
  try {
    (void)parse_glm_config(v, "config.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

std::string message_with(std::string_view key, io::Value value) {
  io::Value v = glm5();
  v.set(key, std::move(value));
  return message_of(v);
}

std::int64_t main_parameters(const GlmConfig& c) {
  std::int64_t n = 0;
  for (const TensorSpec& t : expected_tensors(c)) n += t.pass_through ? 0 : t.count();
  return n;
}

TEST(GlmConfig, CountsOfTheReleasedModels) {
  const GlmConfig five = parse_glm_config(glm5(), "config.json");
  const auto tensors = expected_tensors(five);
  EXPECT_EQ(tensors.size(), 59870U);
  EXPECT_EQ(std::count_if(tensors.begin(), tensors.end(), [](auto& t) { return t.pass_through; }),
            791);
  EXPECT_EQ(main_parameters(five), 743911218432);

  const GlmConfig two = parse_glm_config(glm52(), "config.json");
  const auto shared = expected_tensors(two);
  EXPECT_EQ(shared.size(), 59585U);
  EXPECT_EQ(main_parameters(two), 743377019904);
  std::int64_t fp8 = 0;
  std::int64_t fp8_count = 0;
  std::int64_t f32 = 0;
  for (const TensorSpec& t : shared) {
    fp8 += t.quantizable ? 1 : 0;
    fp8_count += t.quantizable ? t.count() : 0;
    f32 += t.always_f32 ? t.count() : 0;
  }
  EXPECT_EQ(fp8, 59044);
  EXPECT_EQ(fp8_count, 751226191872);
  EXPECT_EQ(f32, 19456);
  std::set<std::string> names;
  for (const TensorSpec& t : shared) names.insert(t.name);
  EXPECT_EQ(names.size(), shared.size());
}

TEST(GlmConfig, IndexShareRules) {
  std::vector<std::int64_t> full;
  const GlmConfig c = parse_glm_config(glm52(), "config.json");
  for (std::int64_t i = 0; i < 78; ++i) {
    if (c.is_full(i)) full.push_back(i);
  }
  EXPECT_EQ(full, (std::vector<std::int64_t>{0,  1,  2,  6,  10, 14, 18, 22, 26, 30, 34,
                                             38, 42, 46, 50, 54, 58, 62, 66, 70, 74}));
  io::Value v = glm52();
  v.set("index_topk_pattern", std::string("FS") + std::string(76, 'F'));
  EXPECT_FALSE(parse_glm_config(v, "f").is_full(1));
  EXPECT_TRUE(parse_glm_config(v, "f").is_full(3));
  io::Value::Array list(78, io::Value("full"));
  list[77] = "shared";
  v.set("indexer_types", list);
  EXPECT_TRUE(parse_glm_config(v, "f").is_full(1));
  EXPECT_FALSE(parse_glm_config(v, "f").is_full(77));
  EXPECT_TRUE(parse_glm_config(glm5(), "f").is_full(77));
}

TEST(GlmConfig, TwoDifferentRopeThetasAreAnError) {
  io::Value v = glm5();
  v.set("rope_theta", 1000000);
  EXPECT_EQ(parse_glm_config(v, "f").rope_theta, 1e6);
  v.set("rope_theta", 10000);
  EXPECT_THROW(parse_glm_config(v, "f"), Error);
}

TEST(GlmConfig, AliasesAndDefaults) {
  io::Value v = glm5();
  v.erase("n_routed_experts");
  v.set("num_experts", 16);
  v.erase("rope_parameters");
  v.set("rope_theta", 5e5);
  v.erase("dtype");
  v.set("torch_dtype", "float32");
  v.erase("num_nextn_predict_layers");
  const GlmConfig c = parse_glm_config(v, "config.json");
  EXPECT_EQ(c.n_routed_experts, 16);
  EXPECT_EQ(c.rope_theta, 5e5);
  EXPECT_EQ(c.dtype, DType::kF32);
  EXPECT_EQ(c.num_nextn_predict_layers, 0);
  EXPECT_FALSE(c.quantization_config.has_value());
  EXPECT_EQ(c.eos_token_id.size(), 3U);
  v.set("quantization_config",
        io::parse_json(R"({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                           "weight_block_size": [128, 128]})",
                       "q"));
  EXPECT_EQ(parse_glm_config(v, "f").quantization_config->block_columns, 128);
}

TEST(GlmConfig, TheNamesOfTheNumberOfExpertsMustAgree) {
  io::Value v = glm5();
  v.erase("n_routed_experts");
  v.set("num_local_experts", 16);
  EXPECT_EQ(parse_glm_config(v, "f").n_routed_experts, 16);
  v.set("n_routed_experts", 16);
  EXPECT_EQ(parse_glm_config(v, "f").n_routed_experts, 16);
  v.set("num_experts", 8);
  EXPECT_NE(message_of(v).find("key `num_experts`: found 8, but n_routed_experts is 16"),
            std::string::npos)
      << message_of(v);
  v.erase("num_local_experts");
  v.erase("num_experts");
  v.erase("n_routed_experts");
  EXPECT_NE(message_of(v).find("`n_routed_experts`: is missing"), std::string::npos);
}

TEST(GlmConfig, LayersAreReadAsTransformersReadsThem) {
  EXPECT_NE(message_with("moe_layer_freq", 2).find("key `moe_layer_freq`: expected 1, found 2"),
            std::string::npos);
  for (const int freq : {0, -3}) {
    io::Value v = glm52();
    v.set("index_topk_freq", freq);
    const GlmConfig c = parse_glm_config(v, "f");
    for (std::int64_t i = 0; i < 78; ++i) EXPECT_TRUE(c.is_full(i)) << i;
  }
  io::Value::Array types(77, io::Value("deepseek_sparse_attention"));
  EXPECT_NE(message_with("layer_types", types).find("expected 78 entries (num_hidden_layers)"),
            std::string::npos);
  types.emplace_back("deepseek_sparse_attention");
  EXPECT_EQ(message_with("layer_types", types), "accepted");
  types[5] = "full_attention";
  EXPECT_NE(message_with("layer_types", types).find("found \"full_attention\""), std::string::npos);
  EXPECT_NE(message_with("layer_types", "deepseek_sparse_attention").find("expected a list"),
            std::string::npos);
}

TEST(GlmConfig, ANegativePadTokenIsNone) {
  io::Value v = glm5();
  v.set("pad_token_id", -1);
  EXPECT_EQ(parse_glm_config(v, "f").pad_token_id, std::nullopt);
  v.set("pad_token_id", 154880);
  EXPECT_NE(message_of(v).find("`pad_token_id`: expected a token id below vocab_size 154880"),
            std::string::npos);
}

TEST(GlmConfig, OtherArchitecturesAreRefusedByName) {
  io::Value v = glm5();
  v.set("model_type", "glm4_moe");
  v.set("architectures", io::Value::Array{"Glm4MoeForCausalLM"});
  EXPECT_EQ(
      message_of(v),
      "config.json: model_type \"glm4_moe\" (Glm4MoeForCausalLM) is not supported; supported: "
      "glm_moe_dsa (GLM-5, GLM-5.1, GLM-5.2, GLM-5.3).");
  v.set("model_type", "glm5_next");
  EXPECT_NE(message_of(v).find("GLM-5.3-Flash is another architecture"), std::string::npos);
}

TEST(GlmConfig, WrongValuesNameTheKey) {
  EXPECT_EQ(message_with("hidden_size", "64"),
            "config.json: key `hidden_size`: expected an integer from 1 to 1048576, found \"64\"");
  EXPECT_NE(message_with("hidden_size", io::Value()).find("`hidden_size`: is missing"),
            std::string::npos);
  const auto names = [](const std::string& message, std::string_view key) {
    return message.find("key `" + std::string(key) + "`") != std::string::npos;
  };
  EXPECT_TRUE(names(message_with("attention_bias", true), "attention_bias"));
  EXPECT_TRUE(names(message_with("scoring_func", "softmax"), "scoring_func"));
  EXPECT_TRUE(names(message_with("qk_head_dim", 192), "qk_head_dim"));
  EXPECT_TRUE(names(message_with("num_key_value_heads", 8), "num_key_value_heads"));
  EXPECT_TRUE(names(message_with("n_group", 3), "n_group"));
  EXPECT_TRUE(names(message_with("architectures", 5), "architectures"));
  EXPECT_TRUE(names(message_with("initializer_range", 1e308), "initializer_range"));
  EXPECT_TRUE(names(message_with("initializer_range", -1), "initializer_range"));
  EXPECT_TRUE(names(message_with("quantization_config", io::parse_json(R"({"quant_method": "fp8",
                                                    "weight_block_size": [1099511627776, 128]})",
                                                                       "q")),
                    "quantization_config.weight_block_size"));
  EXPECT_TRUE(names(message_with("num_experts_per_tok", 300), "num_experts_per_tok"));
  EXPECT_TRUE(names(message_with("index_head_dim", 32), "index_head_dim"));
  EXPECT_TRUE(names(message_with("q_lora_rank", io::Value()), "q_lora_rank"));
  EXPECT_TRUE(names(message_with("eos_token_id", 154880), "eos_token_id"));
  EXPECT_TRUE(names(message_with("index_topk_pattern", "FFS"), "index_topk_pattern"));
  EXPECT_TRUE(
      names(message_with("index_topk_pattern", std::string(78, 'S')), "index_topk_pattern"));
  EXPECT_TRUE(names(message_with("indexer_types", io::Value::Array{"full"}), "indexer_types"));
  EXPECT_TRUE(names(message_with("dtype", "int8"), "dtype"));
  EXPECT_TRUE(names(message_with("rope_parameters",
                                 io::Value::Object{{"rope_type", "yarn"}, {"rope_theta", 1e6}}),
                    "rope_parameters.rope_type"));
  EXPECT_TRUE(names(message_with("rope_scaling", io::Value::Object{{"type", "yarn"}}),
                    "rope_scaling.type"));
  EXPECT_TRUE(names(message_with("quantization_config", io::Value::Object{{"quant_method", "awq"}}),
                    "quantization_config.quant_method"));
  EXPECT_EQ(message_of(io::Value(1)), "config.json: expected a JSON object, found integer");
}

TEST(GlmConfig, ReadsTheGoldenConfigs) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  for (const char* name : {"indexshare", "all_full", "list", "short", "groups", "nonorm", "eps1e-5",
                           "packed", "kernel_dims"}) {
    const GlmConfig c = read_glm_config(std::string(shared) + "/golden/" + name + "/config.json");
    EXPECT_EQ(c.dtype, DType::kF32) << name;
    if (std::string(name) == "indexshare") {
      EXPECT_EQ(expected_tensors(c).size(), 249U);
    }
  }
}

}  // namespace
}  // namespace glmtune::models
