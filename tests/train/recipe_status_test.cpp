#include <gtest/gtest.h>

#include <algorithm>

#include "base/cat.h"
#include "train/recipe_file.h"
#include "train/recipe_support.h"

namespace glmtune::train {
namespace {

TEST(RecipeStatus, ListsWhatDoesNotRunYet) {
  const RecipeFile file =
      small({"--distributed.pp_size=4", "--distributed.pipeline={}", "--peft.dim=8",
             "--model.backend.dispatcher=mok", "--model.torch_dtype=fp16"});
  const std::string line = not_runnable_line(file.checked);
  EXPECT_TRUE(contains(line, "not runnable yet: "));
  EXPECT_TRUE(contains(line, "distributed.pp_size 4"));
  EXPECT_TRUE(contains(line, "peft"));
  EXPECT_TRUE(contains(line, "model.backend.dispatcher mok (hybridep, deepep, torch run)"));
  EXPECT_TRUE(contains(line, "model.torch_dtype fp16"));
  EXPECT_FALSE(contains(line, "peft.dim"));
}

TEST(RecipeStatus, AValueThatSwitchesAFeatureOffRuns) {
  const RecipeFile file = small(
      {"--distributed.pp_size=1", "--distributed.ep_size=1", "--distributed.dp_replicate_size=1",
       "--distributed.dp_replicate_size=null", "--fp8.enabled=false", "--qat.enabled=false",
       "--model.backend.fake_balanced_gate=false", "--model.backend.te_fp8=null",
       "--moe_metrics.enabled=false", "--wandb.enable=false", "--mlflow=null",
       "--distributed.sequence_parallel=false", "--embedding_row_repair.enabled=false"});
  EXPECT_EQ(not_runnable_line(file.checked), "");
}

TEST(RecipeStatus, AnotherTypeOfArithmeticThanOfStorageDoesNotRunYet) {
  const std::string key = "--distributed.mp_policy.param_dtype=";
  EXPECT_EQ(not_runnable_line(small({key + "bf16", "--model.torch_dtype=bfloat16"}).checked), "");
  for (const char* type : {"auto", "null"})
    EXPECT_EQ(not_runnable_line(small({key + "bf16", cat("--model.torch_dtype=", type)}).checked),
              "");
  const CheckedDocument other = small({key + "bf16", "--model.torch_dtype=float32"}).checked;
  EXPECT_TRUE(
      contains(not_runnable_line(other),
               "distributed.mp_policy.param_dtype bf16 without the same model.torch_dtype"));
  EXPECT_EQ(runs_with(other), "; what runs: --model.torch_dtype bf16");
}

// recipes.md section 5, 2.
TEST(RecipeStatus, WandbIsOnUnlessSwitchedOff) {
  const std::string with = std::string(kSmallRecipe) + "wandb: {project: p, enable: false}\n";
  EXPECT_EQ(not_runnable_line(parse(with).checked), "");
  EXPECT_EQ(parse(with).checked.find("wandb"), nullptr);
  EXPECT_EQ(not_runnable_line(parse(with, {"--wandb.enable=true"}).checked),
            "not runnable yet: wandb");
  const RecipeFile on = parse(std::string(kSmallRecipe) + "wandb: {project: p, new_key: 1}\n");
  EXPECT_EQ(not_runnable_line(on.checked), "not runnable yet: wandb");
  EXPECT_EQ(io::to_json(value(on, "wandb")), "{\"project\": \"p\", \"new_key\": 1}");
  EXPECT_EQ(io::to_json(value(small({"--wandb.enable=true"}), "wandb")), "{}");
  EXPECT_TRUE(contains(small_error({"--wandb.enable=maybe"}), "expected true or false"));
}

// recipes.md section 5, 3, and 7.1.
TEST(RecipeStatus, WarnsOnceForEachKeyWithoutEffect) {
  const RecipeFile file = small(
      {"--longalign=false", "--rng.seed=1111", "--ci.nodes=4", "--mtp.x=1",
       "--model.backend.rope_fusion=true", "--model.backend.enable_deepep=true",
       "--packed_sequence.split_across_pack=false", "--distributed.pipeline.layers_per_stage=2",
       "--distributed.moe.wrap_outer_model=false", "--benchmark.warmup_steps=1",
       "--benchmark.peak_tflops=1", "--benchmark.nsys_start=1", "--benchmark.nsys_end=1",
       "--benchmark.nsys_ranks=[]", "--model.backend.gate_precision=bf16"});
  EXPECT_EQ(file.checked.warnings.size(), 11u);
  std::string all;
  for (const std::string& warning : file.checked.warnings) all += warning + "\n";
  for (const char* key :
       {"longalign is ignored", "rng is ignored", "ci is ignored", "mtp is ignored",
        "rope_fusion is ignored", "enable_deepep is ignored", "split_across_pack is ignored",
        "distributed.pipeline is ignored", "distributed.moe is ignored", "benchmark is ignored",
        "gate_precision is raised", "It is 42."})
    EXPECT_TRUE(contains(all, key)) << key << "\n" << all;
}

TEST(RecipeStatus, SectionsWithoutEffectAreWarnedAboutWithTheirLine) {
  const std::string benchmark =
      "{warmup_steps: 1, peak_tflops: 1, nsys_start: 1, nsys_end: 1, nsys_ranks: []}\n";
  const RecipeFile file = parse(std::string(kSmallRecipe) +
                                "distributed:\n  pipeline: {}\n  moe: {}\nbenchmark: " + benchmark);
  ASSERT_EQ(file.checked.warnings.size(), 3u);
  EXPECT_TRUE(contains(file.checked.warnings[0], "recipe.yaml:14: benchmark is ignored"));
  EXPECT_TRUE(
      contains(file.checked.warnings[1], "recipe.yaml:12: distributed.pipeline is ignored"));
  EXPECT_TRUE(contains(file.checked.warnings[2], "recipe.yaml:13: distributed.moe is ignored"));
  EXPECT_TRUE(contains(small({"--distributed.moe.wrap_outer_model=false"}).checked.warnings.at(0),
                       "argument --distributed.moe.wrap_outer_model: distributed.moe is ignored"));
}

// AutoModel fills micro-batches with dataloader.batch_size and counts them by local_batch_size.
TEST(RecipeStatus, AnotherBatchSizeOfTheLoaderIsWarnedAboutOnce) {
  const auto warnings = [](const std::string& size) {
    return small({"--step_scheduler.local_batch_size=2", "--dataloader.batch_size=" + size})
        .checked.warnings;
  };
  ASSERT_EQ(warnings("8").size(), 1u);
  EXPECT_TRUE(contains(warnings("8")[0],
                       "argument --dataloader.batch_size: dataloader.batch_size 8 is not taken: "
                       "micro-batches hold step_scheduler.local_batch_size 2, a step "
                       "global_batch_size 32 samples"))
      << warnings("8")[0];
  EXPECT_TRUE(contains(warnings("8")[0], "train on 128 in a step"));
  EXPECT_TRUE(warnings("2").empty());
  EXPECT_TRUE(warnings("null").empty());
  EXPECT_TRUE(small({"--validation_dataloader.batch_size=8"}).checked.warnings.empty());
}

// recipes.md 1.9 and section 4: the benchmark recipe does not clip.
TEST(RecipeStatus, TheBenchmarkRecipeDoesNotClip) {
  std::string text = kSmallRecipe;
  text.replace(text.find("TrainFine"), text.find('\n') - text.find("TrainFine"),
               "BenchmarkingRecipeForNextTokenPrediction");
  text +=
      "benchmark: {warmup_steps: 1, peak_tflops: 1, nsys_start: 1, nsys_end: 1, nsys_ranks: []}\n";
  const RecipeFile file = parse(text);
  EXPECT_EQ(file.recipe.max_grad_norm, 0);
  EXPECT_TRUE(contains(resolved_lines(file.checked), "clip_grad_norm.max_norm: not applied"));
  EXPECT_TRUE(file.checked.warnings.empty());
  const RecipeFile asked = parse(text, {"--clip_grad_norm.max_norm=2"});
  EXPECT_EQ(asked.recipe.max_grad_norm, 0);
  ASSERT_EQ(asked.checked.warnings.size(), 1u);
  EXPECT_TRUE(contains(asked.checked.warnings[0], "clip_grad_norm.max_norm is ignored"));
}

TEST(RecipeStatus, IgnoredSectionsAreStillCheckedForUnknownKeys) {
  EXPECT_TRUE(contains(small_error({"--distributed.moe.x=1"}), "unknown key distributed.moe.x"));
  EXPECT_TRUE(contains(small_error({"--distributed.pipeline.x=1"}), "unknown key"));
  EXPECT_TRUE(contains(small_error({"--peft.lora_rank=1"}), "unknown key peft.lora_rank"));
}

TEST(RecipeStatus, NamesKeysWithoutACounterpart) {
  const RecipeFile file =
      small({"--model.trust_remote_code=true", "--dataloader.num_workers=4",
             "--step_scheduler.gc_every_steps=10", "--loss_fn.fp32_upcast=true"});
  EXPECT_EQ(file.checked.no_counterpart,
            (std::vector<std::string>{"model.trust_remote_code", "step_scheduler.gc_every_steps",
                                      "dataloader.num_workers", "loss_fn.fp32_upcast"}));
}

// recipes.md 1.1: sections of known keys; wandb alone is open.
TEST(RecipeStatus, LoggersOtherThanWandbHaveKnownKeys) {
  EXPECT_EQ(not_runnable_line(small({"--mlflow.tracking_uri=x", "--comet.workspace=y"}).checked),
            "not runnable yet: mlflow, comet");
  EXPECT_TRUE(contains(small_error({"--mlflow.tracking=x"}), "nearest: tracking_uri"));
  EXPECT_TRUE(contains(small_error({"--comet.project=x"}), "unknown key comet.project"));
}

// recipes.md 7.4: one line for each key that names a vendor's library.
TEST(RecipeStatus, SaysWhatRunsInsteadOfAVendorsLibrary) {
  const auto lines =
      backend_choices(small({"--model.backend.linear=te", "--model.backend.experts=gmm",
                             "--model.backend.dispatcher=hybridep"})
                          .checked);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(contains(lines[0], "model.backend.linear te: "));
  EXPECT_TRUE(contains(lines[2], "none with ep_size 1"));
  EXPECT_TRUE(backend_choices(small().checked).empty());
  const auto line = [](const std::string& setting) {
    const auto chosen = backend_choices(small({"--model.backend." + setting}).checked);
    return chosen.size() == 1 ? chosen[0] : "";
  };
  EXPECT_TRUE(contains(line("attn=te"), "model.backend.attn te: dense kernels"));
  EXPECT_TRUE(contains(line("attn=cudnn"), "model.backend.attn cudnn: glmtune's own kernels"));
  EXPECT_TRUE(contains(line("gate_precision=float32"),
                       "model.backend.gate_precision float32: the router computes in fp32"));
}

// recipes.md 1.6, 1.7 and 1.2: known, without effect on nobody's run, and named with their values.
TEST(RecipeStatus, KnownSettingsThatDoNotRunYetAreNamed) {
  const auto line = [](const std::string& setting) {
    return not_runnable_line(small({setting}).checked);
  };
  const char* const settings[] = {"optimizer.amsgrad true",
                                  "optimizer.maximize true",
                                  "fp8.enabled true",
                                  "qat.enabled true",
                                  "moe_metrics.enabled true",
                                  "embedding_row_repair.enabled true",
                                  "distributed.sequence_parallel true"};
  for (const std::string setting : settings) {
    const std::size_t space = setting.find(' ');
    const std::string key = "--" + setting.substr(0, space) + "=";
    EXPECT_EQ(line(key + "true"), "not runnable yet: " + setting);
    EXPECT_EQ(line(key + "false"), "") << setting;
  }
  for (const char* section : {"quantization", "tool_call_eval"})
    EXPECT_EQ(line(std::string("--") + section + "={a: 1}"),
              std::string("not runnable yet: ") + section);
  EXPECT_EQ(line("--neftune.noise_alpha=3"), "not runnable yet: neftune");
  EXPECT_EQ(line("--model.backend.te_fp8.recipe=block"), "not runnable yet: model.backend.te_fp8");
  EXPECT_EQ(line("--distributed.offload_policy.pin_memory=false"),
            "not runnable yet: distributed.offload_policy");
  EXPECT_EQ(line("--distributed.moe.mp_policy.param_dtype=bf16"),
            "not runnable yet: distributed.moe.mp_policy");
  // AutoModel repairs rows unless the section says it should not.
  EXPECT_EQ(line("--embedding_row_repair.min_norm=1e-5"), "not runnable yet: embedding_row_repair");
}

// recipes.md 1.6: dataloader.batch_size is local_batch_size where it is not given.
TEST(RecipeStatus, ABatchSizeOfTheDataloaderThatIsAnotherIsWarnedOf) {
  const RecipeFile other =
      small({"--dataloader.batch_size=2", "--step_scheduler.local_batch_size=4"});
  ASSERT_EQ(other.checked.warnings.size(), 1u);
  EXPECT_TRUE(contains(other.checked.warnings[0],
                       "dataloader.batch_size 2 is not taken: micro-batches hold "
                       "step_scheduler.local_batch_size 4"))
      << other.checked.warnings[0];
  for (const char* same : {"1", "null"})
    EXPECT_TRUE(small({cat("--dataloader.batch_size=", same)}).checked.warnings.empty()) << same;
}

TEST(RecipeStatus, WhatHasNoEffectOnValidationIsWarnedOf) {
  const auto warning = [](const std::vector<std::string>& overrides) {
    const std::vector<std::string> warnings = small(overrides).checked.warnings;
    return warnings.size() == 1 ? warnings[0] : cat(warnings.size(), " warnings");
  };
  const std::string set =
      "--validation_dataset={_target_: nemo_automodel.components.datasets.llm."
      "mock_iterable_dataset.MockIterableDataset}";
  EXPECT_TRUE(contains(warning({"--validation_dataloader.drop_last=true", set}),
                       "validation_dataloader.drop_last has no effect"));
  EXPECT_TRUE(contains(warning({"--step_scheduler.val_every_steps=5"}),
                       "val_every_steps 5 has no effect: there is no validation_dataset"));
  EXPECT_EQ(warning({"--step_scheduler.val_every_steps=5", set}), "0 warnings");
}

// user_reports 20; recipes.md 1.6: AutoModel's labels for models that shift inside.
TEST(RecipeStatus, UnshiftedLabelsAreShiftedOnceAllTheSameAndThatIsSaid) {
  const RecipeFile file = small({"--dataset.unshifted=true"});
  EXPECT_EQ(not_runnable_line(file.checked), "");
  ASSERT_EQ(file.checked.warnings.size(), 1u);
  EXPECT_TRUE(
      contains(file.checked.warnings[0], "dataset.unshifted is ignored: Labels are shifted"))
      << file.checked.warnings[0];
  EXPECT_TRUE(small({"--dataset.unshifted=false"}).checked.warnings.empty());
}

// recipes.md 1.6 and 1.7: what steers AutoModel's Python side, and the one label without loss.
TEST(RecipeStatus, SettingsOfPythonsSideAreTakenAndNamed) {
  for (const std::string key : {"dataset.start_of_turn_token", "packed_sequence.num_proc",
                                "dataloader.shuffle_buffer_size", "dataloader.num_workers"}) {
    const CheckedDocument checked = small({"--" + key + "=4"}).checked;
    EXPECT_EQ(not_runnable_line(checked), "") << key;
    EXPECT_EQ(std::count(checked.no_counterpart.begin(), checked.no_counterpart.end(), key), 1)
        << key;
  }
  const std::string ignored = "--loss_fn.ignore_index=";
  EXPECT_EQ(not_runnable_line(small({ignored + "-100"}).checked), "");
  EXPECT_EQ(not_runnable_line(small({ignored + "0"}).checked),
            "not runnable yet: loss_fn.ignore_index 0");
}

// recipes.md section 5, 14: adapters do not run in this version; none is none.
TEST(RecipeStatus, SaysWhatRunsInstead) {
  EXPECT_EQ(runs_with(small().checked), "");
  EXPECT_EQ(runs_with(small({"--distributed.pp_size=4", "--distributed.pipeline={}", "--peft.dim=4",
                             "--optimizer.amsgrad", "--distributed.strategy=ddp",
                             "--loss_fn.ignore_index=0", "--model.torch_dtype=float16"})
                          .checked),
            "; what runs: --model.torch_dtype bfloat16 --optimizer.amsgrad false "
            "--distributed.pp_size 1 --distributed.strategy fsdp2 --peft null "
            "--loss_fn.ignore_index -100");
}

TEST(RecipeStatus, AnAdapterIsNamedAsNotRunnable) {
  EXPECT_EQ(not_runnable_line(small({"--peft.dim=4"}).checked), "not runnable yet: peft");
  EXPECT_EQ(not_runnable_line(small({"--peft=null"}).checked), "");
}

// recipes.md section 8, row 20: an adapter is saved without the bias.
TEST(RecipeStatus, MovingTheRoutersBiasUnderLoraIsWarnedAbout) {
  const RecipeFile file = small({"--peft.dim=8", "--model.gate_bias_update_factor=1e-3"});
  ASSERT_EQ(file.checked.warnings.size(), 1u);
  EXPECT_TRUE(contains(file.checked.warnings[0], "which an adapter does not contain"));
}

// recipes.md 1.3.
TEST(RecipeStatus, TheFakeGateRunsWithAWarning) {
  const RecipeFile file =
      small({"--model.backend.fake_balanced_gate=true", "--model.backend.fake_gate_noise=0.5"});
  EXPECT_EQ(not_runnable_line(file.checked), "");
  EXPECT_TRUE(file.recipe.model.backend.fake_balanced_gate);
  ASSERT_EQ(file.checked.warnings.size(), 1u);
  EXPECT_TRUE(contains(file.checked.warnings[0], "does not fine-tune"));
  EXPECT_FALSE(contains(file.checked.warnings[0], "gate_bias_update_factor"));
  EXPECT_TRUE(contains(small_error({"--model.backend.fake_gate_noise=2"}), "from 0 to 1"));
}

TEST(RecipeStatus, TheFakeGateSaysThatTheRoutersBiasStays) {
  const RecipeFile file =
      small({"--model.backend.fake_balanced_gate=true", "--model.gate_bias_update_factor=1e-3"});
  EXPECT_EQ(file.recipe.model.gate_bias_update_factor, 0);
  ASSERT_EQ(file.checked.warnings.size(), 1u);
  EXPECT_TRUE(
      contains(file.checked.warnings[0], "; model.gate_bias_update_factor 0.001 is taken as 0"))
      << file.checked.warnings[0];
}

}  // namespace
}  // namespace glmtune::train
