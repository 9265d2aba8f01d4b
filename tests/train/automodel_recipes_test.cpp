// The eleven AutoModel recipes, value by value (GLMTUNE_SHARED/recipes).
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "train/recipe_support.h"
#include "train/schema_scalar.h"

namespace glmtune::train {
namespace {

constexpr std::array kFiles = {"glm_5_hellaswag_pp",
                               "glm_5.1_hellaswag_pp",
                               "glm_5.2_hellaswag_pp",
                               "glm_5.1_lora",
                               "glm_5.2_lora",
                               "glm_5.2_tulu3_32k_tilelang_cp8",
                               "glm_5.2_tulu3_4k_tilelang_100k",
                               "glm_5.2_tulu3_4k_cudnn_100k",
                               "glm_5.3_tulu3_4k_cudnn_100step",
                               "glm5_lora",
                               "glm_5_te_deepep"};

struct Row {
  const char* key;
  std::array<const char*, 11> values;  // "-": the recipe does not have the key
};

constexpr const char* kFineTune = "TrainFinetuneRecipeForNextTokenPrediction";
constexpr const char* kBench = "BenchmarkingRecipeForNextTokenPrediction";
constexpr const char* kAdam = "torch.optim.Adam";
constexpr const char* kMasked = "nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy";
constexpr const char* kChunked = "nemo_automodel.components.loss.chunked_ce.ChunkedCrossEntropy";
constexpr const char* kThd =
    "nemo_automodel.components.datasets.utils.packed_sequence_thd_collater";
constexpr const char* kPad = "nemo_automodel.components.datasets.utils.default_collater";
constexpr const char* kStateful = "torchdata.stateful_dataloader.StatefulDataLoader";
constexpr const char* kTorchLoader = "torch.utils.data.DataLoader";
constexpr const char* kHella = "nemo_automodel.components.datasets.llm.hellaswag.HellaSwag";
constexpr const char* kChat = "nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset";
constexpr const char* kMock =
    "nemo_automodel.components.datasets.llm.mock_iterable_dataset.MockIterableDataset";
constexpr const char* kTulu = "allenai/tulu-3-sft-mixture";

// clang-format off
const Row kRows[] = {
{"recipe", {kFineTune, kFineTune, kFineTune, kFineTune, kFineTune, kFineTune, kFineTune, kFineTune, kFineTune, kBench, kBench}},
{"seed", {"1234", "1234", "1234", "-", "42", "1234", "1234", "1234", "1234", "1234", "1234"}},
{"step_scheduler.global_batch_size", {"512", "512", "512", "512", "128", "64", "256", "256", "256", "512", "1024"}},
{"step_scheduler.local_batch_size", {"4", "4", "4", "8", "1", "4", "4", "4", "4", "4", "4"}},
{"step_scheduler.ckpt_every_steps", {"1000", "1000", "1000", "500", "25", "100000", "100000", "100000", "100000", "1000", "1000"}},
{"step_scheduler.val_every_steps", {"1000", "1000", "1000", "100", "5", "100000", "100000", "100000", "100000", "1000", "1000"}},
{"step_scheduler.gc_every_steps", {"10", "10", "10", "-", "25", "10", "10", "10", "10", "10", "10"}},
{"step_scheduler.num_epochs", {"2", "2", "2", "-", "1", "8", "2", "2", "2", "1", "1"}},
{"step_scheduler.max_steps", {"-", "-", "-", "100", "-", "100", "100", "100", "100", "30", "12"}},
{"step_scheduler.save_checkpoint_every_epoch", {"-", "-", "-", "-", "true", "-", "-", "-", "-", "-", "-"}},
{"distributed.strategy", {"fsdp2", "fsdp2", "fsdp2", "fsdp2", "fsdp2", "fsdp2", "fsdp2", "fsdp2", "fsdp2", "fsdp2", "fsdp2"}},
{"distributed.tp_size", {"1", "1", "1", "1", "1", "1", "1", "1", "1", "1", "1"}},
{"distributed.cp_size", {"1", "1", "1", "1", "1", "8", "1", "1", "1", "1", "1"}},
{"distributed.pp_size", {"4", "4", "4", "4", "1", "4", "4", "4", "4", "4", "4"}},
{"distributed.ep_size", {"64", "64", "64", "32", "128", "64", "64", "64", "64", "32", "64"}},
{"distributed.activation_checkpointing", {"true", "true", "true", "-", "true", "true", "true", "true", "true", "true", "true"}},
{"distributed.reshard_after_forward", {"-", "-", "-", "-", "true", "true", "-", "-", "-", "-", "-"}},
{"distributed.pipeline.round_virtual_stages_to_pp_multiple", {"down", "down", "down", "up", "-", "down", "down", "down", "down", "up", "down"}},
{"distributed.pipeline.pp_schedule", {"interleaved1f1b", "interleaved1f1b", "interleaved1f1b", "interleaved1f1b", "-", "interleaved1f1b", "interleaved1f1b", "interleaved1f1b", "interleaved1f1b", "interleaved1f1b", "interleaved1f1b"}},
{"distributed.pipeline.layers_per_stage", {"2", "2", "2", "2", "-", "2", "2", "2", "2", "2", "2"}},
{"distributed.pipeline.pp_microbatch_size", {"1", "1", "1", "1", "-", "1", "1", "1", "1", "1", "1"}},
{"distributed.pipeline.scale_grads_in_schedule", {"false", "false", "false", "false", "-", "false", "false", "false", "false", "false", "false"}},
{"distributed.pipeline.pp_seq_len", {"-", "-", "-", "-", "-", "32768", "-", "-", "-", "-", "-"}},
{"distributed.moe.wrap_outer_model", {"false", "false", "false", "false", "false", "false", "false", "false", "false", "false", "false"}},
{"distributed.moe.reshard_after_forward", {"false", "false", "false", "-", "true", "true", "false", "false", "false", "false", "false"}},
{"distributed.moe.ignore_router_for_ac", {"-", "-", "-", "-", "true", "true", "true", "true", "true", "-", "-"}},
{"dist_env.timeout_minutes", {"10", "10", "10", "10", "240", "30", "10", "30", "30", "10", "10"}},
{"dist_env.backend", {"nccl", "nccl", "nccl", "nccl", "nccl", "nccl", "nccl", "nccl", "nccl", "nccl", "nccl"}},
{"model.pretrained_model_name_or_path", {"zai-org/GLM-5", "zai-org/GLM-5.1", "zai-org/GLM-5.2", "zai-org/GLM-5.1", "zai-org/GLM-5.2", "zai-org/GLM-5.2", "zai-org/GLM-5.2", "zai-org/GLM-5.2", "zai-org/GLM-5.3", "-", "-"}},
{"model.config.pretrained_model_name_or_path", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "zai-org/GLM-5", "zai-org/GLM-5"}},
{"model.trust_remote_code", {"-", "-", "-", "-", "true", "-", "-", "-", "-", "true", "true"}},
{"model.backend.attn", {"sdpa", "sdpa", "sdpa", "sdpa", "tilelang", "tilelang", "tilelang", "cudnn", "cudnn", "te", "te"}},
{"model.backend.linear", {"te", "te", "te", "torch", "torch", "torch", "torch", "torch", "torch", "te", "te"}},
{"model.backend.rms_norm", {"torch_fp32", "torch_fp32", "torch_fp32", "torch_fp32", "torch_fp32", "torch_fp32", "torch_fp32", "torch_fp32", "torch_fp32", "te", "te"}},
{"model.backend.experts", {"gmm", "gmm", "-", "gmm", "torch_mm", "-", "-", "-", "-", "torch_mm", "torch_mm"}},
{"model.backend.dispatcher", {"hybridep", "hybridep", "hybridep", "hybridep", "hybridep", "hybridep", "hybridep", "hybridep", "hybridep", "hybridep", "hybridep"}},
{"model.backend.gate_precision", {"-", "-", "float32", "-", "float32", "float32", "float32", "float32", "float32", "-", "-"}},
{"model.backend.fake_balanced_gate", {"false", "false", "false", "false", "false", "false", "false", "false", "false", "true", "true"}},
{"model.backend.rope_fusion", {"false", "false", "false", "false", "false", "false", "false", "false", "false", "false", "false"}},
{"model.backend.enable_hf_state_dict_adapter", {"true", "true", "true", "true", "true", "true", "true", "true", "true", "true", "true"}},
{"model.backend.enable_fsdp_optimizations", {"true", "true", "true", "true", "true", "true", "true", "true", "true", "true", "true"}},
{"checkpoint.enabled", {"false", "false", "false", "false", "false", "false", "false", "false", "false", "false", "false"}},
{"checkpoint.dequantize_base_checkpoint", {"true", "true", "true", "-", "true", "true", "true", "true", "true", "-", "-"}},
{"loss_fn._target_", {kMasked, kMasked, kMasked, kMasked, kChunked, kMasked, kMasked, kMasked, kMasked, kMasked, kMasked}},
{"loss_fn.chunk_len", {"-", "-", "-", "-", "512", "-", "-", "-", "-", "-", "-"}},
{"loss_fn.compile", {"-", "-", "-", "-", "true", "-", "-", "-", "-", "-", "-"}},
{"loss_fn.fp32_upcast", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "false", "false"}},
{"dataset._target_", {kHella, kHella, kHella, kHella, kChat, kChat, kChat, kChat, kChat, kMock, kMock}},
{"dataset.path_or_dataset", {"rowan/hellaswag", "rowan/hellaswag", "rowan/hellaswag", "rowan/hellaswag", "-", "-", "-", "-", "-", "-", "-"}},
{"dataset.path_or_dataset_id", {"-", "-", "-", "-", kTulu, kTulu, kTulu, kTulu, kTulu, "-", "-"}},
{"dataset.split", {"train", "train", "train", "train", "train[:100000]", "train[:100000]", "train[:100000]", "train[:100000]", "train[:100000]", "-", "-"}},
{"dataset.shuffle_seed", {"-", "-", "-", "-", "42", "42", "42", "42", "42", "-", "-"}},
{"dataset.seq_length", {"-", "-", "-", "-", "4096", "32768", "4096", "4096", "4096", "-", "-"}},
{"dataset.truncation", {"-", "-", "-", "-", "true", "true", "true", "true", "true", "-", "-"}},
{"dataset.padding", {"-", "-", "-", "-", "false", "false", "false", "false", "false", "-", "-"}},
{"dataset.tokenizer.pretrained_model_name_or_path", {"-", "-", "-", "-", "zai-org/GLM-5.2", "zai-org/GLM-5.2", "zai-org/GLM-5.2", "zai-org/GLM-5.2", "zai-org/GLM-5.3", "-", "-"}},
{"dataset.seq_len", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "4096", "4096"}},
{"dataset.num_samples", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "100000", "100000"}},
{"packed_sequence.packed_sequence_size", {"0", "0", "0", "0", "4096", "32768", "4096", "4096", "4096", "-", "-"}},
{"packed_sequence.split_across_pack", {"-", "-", "-", "false", "-", "-", "-", "-", "-", "-", "-"}},
{"dataloader._target_", {kStateful, kStateful, kStateful, kStateful, kStateful, kStateful, kStateful, kStateful, kStateful, kTorchLoader, kTorchLoader}},
{"dataloader.collate_fn._target_", {kPad, kPad, kPad, kPad, "-", "-", "-", "-", "-", "-", "-"}},
{"dataloader.collate_fn.pad_seq_len_divisible", {"160", "160", "160", "160", "-", "-", "-", "-", "-", "-", "-"}},
{"dataloader.collate_fn", {"-", "-", "-", "-", kThd, kThd, kThd, kThd, kThd, "-", "-"}},
{"dataloader.shuffle", {"true", "true", "true", "true", "true", "true", "true", "true", "true", "-", "-"}},
{"dataloader.drop_last", {"-", "-", "-", "true", "false", "-", "-", "-", "-", "-", "-"}},
{"dataloader.batch_size", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "null", "null"}},
{"dataloader.num_workers", {"-", "-", "-", "-", "0", "-", "-", "-", "-", "0", "0"}},
{"validation_dataset.split", {"train", "train", "train", "validation", "train[100000:100064]", "-", "-", "-", "-", "-", "-"}},
{"validation_dataset.num_samples_limit", {"-", "-", "-", "64", "-", "-", "-", "-", "-", "-", "-"}},
{"validation_dataloader.batch_size", {"-", "-", "-", "8", "-", "-", "-", "-", "-", "-", "-"}},
{"validation_dataloader.drop_last", {"true", "true", "true", "true", "false", "-", "-", "-", "-", "-", "-"}},
{"validation_dataloader.shuffle", {"true", "true", "true", "-", "false", "-", "-", "-", "-", "-", "-"}},
{"optimizer._target_", {kAdam, kAdam, kAdam, kAdam, "torch.optim.AdamW", kAdam, kAdam, kAdam, kAdam, kAdam, kAdam}},
{"optimizer.lr", {"1e-5", "1e-5", "1e-5", "1e-5", "1e-4", "1e-5", "1e-5", "1e-5", "1e-5", "1e-4", "1e-4"}},
{"optimizer.eps", {"1e-8", "1e-8", "1e-8", "1e-8", "1e-8", "1e-8", "1e-8", "1e-8", "1e-8", "1e-8", "1e-8"}},
{"optimizer.weight_decay", {"0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0"}},
{"optimizer.betas", {"[0.9, 0.999]", "[0.9, 0.999]", "[0.9, 0.999]", "[0.9, 0.999]", "[0.9, 0.95]", "[0.9, 0.999]", "[0.9, 0.999]", "[0.9, 0.999]", "[0.9, 0.999]", "[0.9, 0.999]", "[0.9, 0.999]"}},
{"lr_scheduler.lr_decay_style", {"-", "-", "-", "-", "constant", "-", "-", "-", "-", "-", "-"}},
{"lr_scheduler.lr_warmup_steps", {"-", "-", "-", "-", "0", "-", "-", "-", "-", "-", "-"}},
{"lr_scheduler.min_lr", {"-", "-", "-", "-", "2e-5", "-", "-", "-", "-", "-", "-"}},
{"clip_grad_norm.max_norm", {"-", "-", "-", "-", "1", "-", "-", "-", "-", "-", "-"}},
{"ci.nodes", {"32", "32", "32", "16", "16", "64", "32", "32", "32", "16", "128"}},
{"ci.time", {"00:45:00", "00:30:00", "00:30:00", "00:20:00", "00:25:00", "01:00:00", "01:00:00", "01:00:00", "02:00:00", "00:45:00", "00:45:00"}},
{"peft.dim", {"-", "-", "-", "8", "32", "-", "-", "-", "-", "32", "-"}},
{"peft.alpha", {"-", "-", "-", "32", "64", "-", "-", "-", "-", "32", "-"}},
{"peft.match_all_linear", {"-", "-", "-", "true", "-", "-", "-", "-", "-", "-", "-"}},
{"peft.use_triton", {"-", "-", "-", "true", "false", "-", "-", "-", "-", "-", "-"}},
{"peft.moe_rank_scaling", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "true", "-"}},
{"benchmark.warmup_steps", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "10", "2"}},
{"benchmark.num_nodes", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "16", "128"}},
{"benchmark.nsys_ranks", {"-", "-", "-", "-", "-", "-", "-", "-", "-", "[]", "[]"}},
};
// clang-format on

class AutoModelRecipes : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("GLMTUNE_SHARED");
    if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
    for (const char* name : kFiles)
      files_.push_back(read_recipe(std::string(shared) + "/recipes/" + name + ".yaml", {},
                                   [](const std::string&) { return std::nullopt; }));
  }
  // Column letters of the table: A is 0.
  const RecipeFile& recipe(char column) const {
    return files_[static_cast<std::size_t>(column - 'A')];
  }

  std::vector<RecipeFile> files_;
};

// recipes.md section 5, 1, and 1.9.
TEST_F(AutoModelRecipes, EveryValueIsTheRecipes) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    // ci and the like are flattened in what is printed.
    const io::Value resolved = resolved_keys(files_[i].checked);
    for (const Row& row : kRows) {
      const std::string expected = row.values[i];
      const std::string what = std::string(kFiles[i]) + " " + row.key;
      const io::Value* found = resolved.find(row.key);
      const CheckedKey* key = files_[i].checked.find(row.key);
      if (expected == "-") {
        EXPECT_TRUE(key == nullptr || !key->from_recipe) << what;
        continue;
      }
      ASSERT_NE(found, nullptr) << what;
      if (const auto number = number_from_text(expected); number && !found->is_string()) {
        EXPECT_EQ(found->as_double(), *number) << what;
      } else {
        EXPECT_EQ(found->is_string() ? found->as_string() : io::to_json(*found), expected) << what;
      }
    }
  }
}

TEST_F(AutoModelRecipes, AbsentKeysHaveTheirDefaults) {
  EXPECT_EQ(recipe('D').recipe.seed, 42u);
  EXPECT_EQ(recipe('D').recipe.step_scheduler.num_epochs, 10);
  for (char column = 'A'; column <= 'K'; ++column)
    EXPECT_EQ(recipe(column).recipe.max_grad_norm, column < 'J' ? 1 : 0) << column;
  EXPECT_EQ(recipe('A').recipe.optimizer.master_weights, MasterWeights::kFp32);
}

// recipes.md 1.6 and 1.9: what the benchmark recipe puts in or leaves out.
TEST_F(AutoModelRecipes, BenchmarksHaveTheModelsVocabularyAndNoClipping) {
  for (const char column : {'J', 'K'}) {
    RecipeFile file = recipe(column);
    const auto shown = [&](const char* key) {
      return io::to_json(*resolved_keys(file.checked).find(key));
    };
    EXPECT_EQ(shown("clip_grad_norm.max_norm"), "\"not applied\"");
    EXPECT_EQ(shown("dataset.vocab_size"), "\"the model's\"");
    use_vocabulary(file, 154880);
    EXPECT_EQ(shown("dataset.vocab_size"), "154880");
    EXPECT_EQ(std::get<data::MockSettings>(file.recipe.dataset.settings).vocab_size, 154880);
  }
  RecipeFile fine_tune = recipe('A');
  use_vocabulary(fine_tune, 154880);
  EXPECT_EQ(fine_tune.checked.find("dataset.vocab_size"), nullptr);
}

TEST_F(AutoModelRecipes, EachListsWhatDoesNotRunYet) {
  EXPECT_EQ(not_runnable_line(recipe('D').checked),
            "not runnable yet: peft, distributed.ep_size 32, distributed.pp_size 4");
  EXPECT_EQ(not_runnable_line(recipe('E').checked),
            "not runnable yet: peft, distributed.ep_size 128");
  EXPECT_TRUE(contains(not_runnable_line(recipe('F').checked), "distributed.cp_size 8"));
  EXPECT_TRUE(contains(not_runnable_line(recipe('J').checked), kBench));
  EXPECT_FALSE(contains(not_runnable_line(recipe('K').checked), "fake_balanced_gate"));
}

TEST_F(AutoModelRecipes, QuotedScalarsStayStrings) {
  const io::Value keys = resolved_keys(recipe('I').checked);
  EXPECT_EQ(keys.find("ci.env_vars.HF_HUB_OFFLINE")->as_string(), "0");
  EXPECT_EQ(keys.find("ci.env_vars.REQUIRE_FINITE_METRICS")->as_string(), "true");
  EXPECT_EQ(keys.find("ci.env_vars.FINETUNE_ARGS")->as_string(), "--wandb.enable=true");
  const io::Value e = resolved_keys(recipe('E').checked);
  EXPECT_EQ(e.find("ci.release.packed_sequence.max_packs")->as_int(), 2560);
}

TEST_F(AutoModelRecipes, WandbOfRecipeIFollowsItsFlag) {
  EXPECT_EQ(recipe('I').checked.find("wandb"), nullptr);
  const std::string path =
      std::string(std::getenv("GLMTUNE_SHARED")) + "/recipes/" + kFiles[8] + ".yaml";
  const std::vector<std::string> on{"--wandb.enable=true"};
  const RecipeFile file = read_recipe(path, on, [](const std::string&) { return std::nullopt; });
  const io::Value keys = resolved_keys(file.checked);
  EXPECT_EQ(keys.find("wandb.mode")->as_string(), "online");
  EXPECT_EQ(keys.find("wandb.enable"), nullptr);
  EXPECT_EQ(keys.find("wandb.tags")->size(), 7u);
}

TEST_F(AutoModelRecipes, TheIgnoredBlocksOnlyWarn) {
  const auto warns = [](const RecipeFile& file, const std::string& part) {
    for (const std::string& warning : file.checked.warnings)
      if (contains(warning, part)) return true;
    return false;
  };
  EXPECT_TRUE(warns(recipe('D'), "rng is ignored"));
  EXPECT_TRUE(warns(recipe('D'), "It is 42."));
  EXPECT_TRUE(warns(recipe('D'), "split_across_pack is ignored"));
  EXPECT_TRUE(warns(recipe('E'), "longalign is ignored"));
  for (const RecipeFile& file : files_) EXPECT_TRUE(warns(file, "ci is ignored"));
}

TEST_F(AutoModelRecipes, DataSettingsAreTyped) {
  const auto& chat = std::get<data::ChatSettings>(recipe('F').recipe.dataset.settings);
  EXPECT_EQ(chat.seq_length, 32768);
  EXPECT_EQ(chat.too_long, data::TooLong::kTruncate);
  EXPECT_EQ(chat.rows.shuffle_seed, 42u);
  EXPECT_EQ(recipe('F').recipe.dataset.packing.packed_sequence_size, 32768);
  const auto& validation = recipe('D').recipe.validation_datasets;
  ASSERT_EQ(validation.size(), 1u);
  EXPECT_EQ(std::get<data::HellaSwagSettings>(validation[0].settings).rows.limit, 64);
}

// A newcomer's try: a published recipe on one machine, through the command line alone.
TEST_F(AutoModelRecipes, OverridesMakeThemRunnableOnOneRank) {
  const std::vector<std::string> arguments{"--distributed.pp_size=1",
                                           "--distributed.ep_size=1",
                                           "--distributed.cp_size=1",
                                           "--step_scheduler.global_batch_size=8",
                                           "--step_scheduler.local_batch_size=1",
                                           "--model.pretrained_model_name_or_path=/models/tiny",
                                           "--dataset.tokenizer.pretrained_model_name_or_path",
                                           "/models/tiny",
                                           "--dataset.path_or_dataset_id=chat.jsonl"};
  for (const char column : {'F', 'G', 'H', 'I'}) {
    const std::string path = std::string(std::getenv("GLMTUNE_SHARED")) + "/recipes/" +
                             kFiles[static_cast<std::size_t>(column - 'A')] + ".yaml";
    const RecipeFile file =
        read_recipe(path, arguments, [](const std::string&) { return std::nullopt; });
    EXPECT_EQ(not_runnable_line(file.checked), "") << column;
  }
}

// AutoModel's page prints GLM-5.3's recipe with reshard_after_forward true and without pp_size.
TEST_F(AutoModelRecipes, ThePagesVariantParses) {
  const std::string path =
      std::string(std::getenv("GLMTUNE_SHARED")) + "/recipes/" + kFiles[8] + ".yaml";
  const std::vector<std::string> page{"--distributed.pp_size=null",
                                      "--distributed.moe.reshard_after_forward=true"};
  EXPECT_EQ(read_recipe(path, page, [](const std::string&) { return std::nullopt; })
                .recipe.distributed.pp_size,
            1);
}

}  // namespace
}  // namespace glmtune::train
