#include "train/recipe_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>

#include "base/cat.h"
#include "train/recipe_support.h"
#include "train/schema.h"

namespace glmtune::train {
namespace {

TEST(RecipeFile, FallbacksEqualTheTypedDefaults) {
  const Recipe parsed = small().recipe;
  const Recipe plain;
  EXPECT_EQ(parsed.seed, plain.seed);
  EXPECT_EQ(parsed.model.latent_norm_eps, plain.model.latent_norm_eps);
  EXPECT_EQ(parsed.model.gate_bias_update_factor, plain.model.gate_bias_update_factor);
  EXPECT_EQ(parsed.model.torch_dtype, plain.model.torch_dtype);
  EXPECT_EQ(parsed.model.backend.attn, plain.model.backend.attn);
  EXPECT_EQ(parsed.step_scheduler.global_batch_size, plain.step_scheduler.global_batch_size);
  EXPECT_EQ(parsed.step_scheduler.local_batch_size, plain.step_scheduler.local_batch_size);
  EXPECT_EQ(parsed.step_scheduler.num_epochs, plain.step_scheduler.num_epochs);
  EXPECT_EQ(parsed.step_scheduler.ckpt_every_steps, plain.step_scheduler.ckpt_every_steps);
  EXPECT_EQ(parsed.step_scheduler.preemption_signals, (std::vector<int>{SIGTERM, SIGUSR1}));
  EXPECT_EQ(parsed.optimizer.lr, plain.optimizer.lr);
  EXPECT_EQ(parsed.optimizer.beta2, plain.optimizer.beta2);
  EXPECT_EQ(parsed.optimizer.eps, plain.optimizer.eps);
  EXPECT_EQ(parsed.optimizer.master_weights, plain.optimizer.master_weights);
  EXPECT_EQ(parsed.max_grad_norm, plain.max_grad_norm);
  EXPECT_EQ(parsed.checkpoint.enabled, plain.checkpoint.enabled);
  EXPECT_EQ(parsed.checkpoint.checkpoint_dir, plain.checkpoint.checkpoint_dir);
  EXPECT_EQ(parsed.checkpoint.save_consolidated, plain.checkpoint.save_consolidated);
  EXPECT_EQ(parsed.distributed.activation_checkpointing,
            plain.distributed.activation_checkpointing);
  EXPECT_EQ(parsed.dataset.packing.packed_sequence_size, 0);
  EXPECT_FALSE(parsed.lr_scheduler.has_value());
  EXPECT_FALSE(parsed.peft);
}

TEST(RecipeFile, OptimizerDefaultsAreTheTargets) {
  EXPECT_EQ(small().recipe.optimizer.weight_decay, 0.01);
  EXPECT_EQ(small().recipe.optimizer.kind, OptimizerKind::kAdamW);
  const RecipeFile adam = small({"--optimizer._target_=torch.optim.Adam"});
  EXPECT_EQ(adam.recipe.optimizer.weight_decay, 0);
  EXPECT_EQ(adam.recipe.optimizer.kind, OptimizerKind::kAdam);
  const std::string fused = "--optimizer._target_=transformer_engine.pytorch.optimizers.FusedAdam";
  EXPECT_EQ(small({fused}).recipe.optimizer.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(small({fused, "--optimizer.adam_w_mode=false"}).recipe.optimizer.kind,
            OptimizerKind::kAdam);
}

TEST(RecipeFile, MasterWeightsChooseTheMoments) {
  const Recipe bf16 = small({"--optimizer.master_weights=bf16"}).recipe;
  EXPECT_EQ(bf16.optimizer.master_weights, MasterWeights::kBf16);
  EXPECT_TRUE(bf16.optimizer.round_each_operation);
  EXPECT_FALSE(bf16.optimizer.stochastic_rounding);
  const Recipe stochastic = small({"--optimizer.master_weights=bf16_stochastic"}).recipe;
  EXPECT_EQ(stochastic.optimizer.master_weights, MasterWeights::kBf16);
  EXPECT_FALSE(stochastic.optimizer.round_each_operation);
  EXPECT_EQ(stochastic.optimizer.exp_avg_dtype, DType::kBF16);
  EXPECT_TRUE(stochastic.optimizer.stochastic_rounding);
  EXPECT_EQ(bf16.optimizer.exp_avg_dtype, DType::kBF16);
  const std::string fused = "--optimizer._target_=transformer_engine.pytorch.optimizers.FusedAdam";
  const Recipe te = small({fused, "--optimizer.master_weights=false",
                           "--optimizer.exp_avg_sq_dtype=torch.bfloat16"})
                        .recipe;
  EXPECT_EQ(te.optimizer.master_weights, MasterWeights::kBf16);
  EXPECT_FALSE(te.optimizer.round_each_operation);  // its kernel rounds once
  EXPECT_EQ(te.optimizer.exp_avg_dtype, DType::kF32);
  EXPECT_EQ(te.optimizer.exp_avg_sq_dtype, DType::kBF16);
  EXPECT_EQ(small({fused}).recipe.optimizer.master_weights, MasterWeights::kFp32);
}

// recipes.md 1.7.
TEST(RecipeFile, BiasCorrectionIsLeftOutOnRequest) {
  const std::string fused = "--optimizer._target_=transformer_engine.pytorch.optimizers.FusedAdam";
  EXPECT_TRUE(small({fused}).recipe.optimizer.bias_correction);
  const RecipeFile without = small({fused, "--optimizer.bias_correction=false"});
  EXPECT_FALSE(without.recipe.optimizer.bias_correction);
  EXPECT_EQ(not_runnable_line(without.checked), "");
  EXPECT_TRUE(contains(small_error({"--optimizer.bias_correction=false"}),
                       "unknown key optimizer.bias_correction of AdamW"));
}

// Recipes name the model's id a second time for its tokenizer.
TEST(RecipeFile, ARevisionPinsTheModelAndItsTokenizer) {
  const Recipe plain = small().recipe;
  EXPECT_EQ(plain.model.revision, "main");
  EXPECT_EQ(plain.dataset.revision, "main");
  const std::string tokenizer = "--dataset.tokenizer.pretrained_model_name_or_path=";
  const Recipe pinned = small({"--model.revision=v2", "--dataset.revision=abc",
                               "--model.pretrained_model_name_or_path=org/m", tokenizer + "org/m"})
                            .recipe;
  EXPECT_EQ(pinned.model.revision, "v2");
  EXPECT_EQ(pinned.dataset.revision, "abc");
  EXPECT_EQ(pinned.dataset.tokenizer_revision, "v2");
  EXPECT_EQ(
      small({"--model.revision=v2", tokenizer + "org/other"}).recipe.dataset.tokenizer_revision,
      "main");
  EXPECT_EQ(small({tokenizer + "org/other", "--dataset.tokenizer.revision=v3"})
                .recipe.dataset.tokenizer_revision,
            "v3");
}

TEST(RecipeFile, NumbersMayBeQuotedAndSpelledAnyWay) {
  for (const char* text : {"1e-5", "'1e-5'", "\"1.0e-5\"", "1E-5", "0.00001"}) {
    const RecipeFile file = parse(std::string(kSmallRecipe) + "  lr: " + text + "\n");
    EXPECT_EQ(file.recipe.optimizer.lr, 1e-5) << text;
  }
}

TEST(RecipeFile, NullMeansTheFallbackUnlessItHasAMeaning) {
  EXPECT_EQ(small({"--clip_grad_norm=null"}).recipe.max_grad_norm, 1);
  EXPECT_EQ(small({"--clip_grad_norm.max_norm=none"}).recipe.max_grad_norm, 1);
  EXPECT_EQ(small({"--clip_grad_norm.max_norm=.inf"}).recipe.max_grad_norm, INFINITY);
  EXPECT_EQ(small({"--clip_grad_norm.max_norm=0"}).recipe.max_grad_norm, 0);
  EXPECT_EQ(small({"--step_scheduler.num_epochs=null"}).recipe.step_scheduler.num_epochs,
            std::nullopt);
  EXPECT_EQ(
      small({"--step_scheduler.ckpt_every_steps=null"}).recipe.step_scheduler.ckpt_every_steps,
      std::nullopt);
  EXPECT_TRUE(small({"--step_scheduler.preemption_signal=null"})
                  .recipe.step_scheduler.preemption_signals.empty());
  EXPECT_EQ(small({"--distributed.dp_size=none"}).recipe.distributed.dp_size, std::nullopt);
  EXPECT_EQ(small({"--peft=null"}).checked.not_runnable.size(), 0u);
}

// recipes.md 7.2: quotes say that a string is meant, where one is wanted.
TEST(RecipeFile, QuotedNullIsNullWhereNoStringIsWanted) {
  const auto with = [](const std::string& text) { return parse(std::string(kSmallRecipe) + text); };
  for (const char* word : {"\"none\"", "'null'", "'None'"}) {
    EXPECT_EQ(with(cat("seed: ", word, "\n")).recipe.seed, 42u) << word;
    EXPECT_EQ(with(cat("distributed: {dp_size: ", word, "}\n")).recipe.distributed.dp_size,
              std::nullopt)
        << word;
    EXPECT_FALSE(with(cat("peft: ", word, "\n")).recipe.peft) << word;
  }
  EXPECT_EQ(with("checkpoint: {restore_from: 'none'}\n").recipe.checkpoint.restore_from, "none");
  EXPECT_EQ(small({"--distributed.activation_checkpointing='none'"})
                .recipe.distributed.activation_checkpointing,
            ActivationCheckpointing::kOff);
  EXPECT_TRUE(contains(not_runnable_line(small({"--loss_fn.reduction='none'"}).checked),
                       "loss_fn.reduction none"));
}

// AutoModel reads them as a tuple or a list of Python's.
TEST(RecipeFile, NumbersWithCommasAreAList) {
  for (const char* text : {"0.8,0.95", "0.8, 0.95", "(0.8, 0.95)", "[0.8,0.95]", "'[0.8, 0.95]'",
                           "\"0.8,0.95\"", "'(0.8,0.95,)'"}) {
    const Recipe recipe = small({"--optimizer.betas", text}).recipe;
    EXPECT_EQ(recipe.optimizer.beta1, 0.8) << text;
    EXPECT_EQ(recipe.optimizer.beta2, 0.95) << text;
  }
  EXPECT_TRUE(contains(small_error({"--optimizer.betas=0.9,x"}), "optimizer.betas[1] is 'x'"));
  EXPECT_TRUE(contains(small_error({"--optimizer.betas=0.9,"}), "expected two numbers"));
  EXPECT_EQ(small({"--dataset.path_or_dataset_id=a,b"}).recipe.dataset.sources,
            (std::vector<std::string>{"a,b"}));
}

TEST(RecipeFile, PointersMayBeWrittenInAnyCase) {
  const auto from = [](const std::string& word) {
    return small({"--checkpoint.restore_from=" + word}).recipe.checkpoint.restore_from;
  };
  for (const char* word : {"latest", "Latest", "LATEST"}) EXPECT_EQ(from(word), "LATEST");
  EXPECT_EQ(from("lowest_val"), "LOWEST_VAL");
  EXPECT_EQ(from("runs/latest"), "runs/latest");
}

TEST(RecipeFile, SignalsByNameNumberOrList) {
  const auto signals = [](const char* value) {
    return small({std::string("--step_scheduler.preemption_signal=") + value})
        .recipe.step_scheduler.preemption_signals;
  };
  EXPECT_EQ(signals("SIGUSR1"), (std::vector<int>{SIGUSR1}));
  EXPECT_EQ(signals("10"), (std::vector<int>{10}));
  EXPECT_EQ(signals("[SIGTERM, USR2]"), (std::vector<int>{SIGTERM, SIGUSR2}));
  EXPECT_TRUE(contains(small_error({"--step_scheduler.preemption_signal=SIGFOO"}), "SIGFOO"));
  EXPECT_NE(small_error({"--step_scheduler.preemption_signal=SIGKILL"}), "");
}

// recipes.md 7.3: the table of targets holds what AutoModel's LLM recipes name.
TEST(RecipeFile, EveryTargetOfTheTableIsKnown) {
  const std::string root = "nemo_automodel.components.";
  const std::pair<const char*, std::string> known[] = {
      {"recipe", "nemo_automodel.recipes.llm.benchmark.BenchmarkingRecipeForNextTokenPrediction"},
      {"recipe", "nemo_automodel.recipes.llm.kd.KnowledgeDistillationRecipeForNextTokenPrediction"},
      {"model", "nemo_automodel._transformers.auto_model.NeMoAutoModelForCausalLM.from_config"},
      {"model.config", "transformers.AutoConfig.from_pretrained"},
      {"model.backend", root + "models.common.utils.BackendConfig"},
      {"model.backend", "nemo_automodel.models.common.BackendConfig"},
      {"tokenizer", "nemo_automodel.NeMoAutoTokenizer.from_pretrained"},
      {"tokenizer",
       "nemo_automodel._transformers.auto_tokenizer.NeMoAutoTokenizer.from_pretrained"},
      {"optimizer", "torch.optim.Adam"},
      {"optimizer", "transformer_engine.pytorch.optimizers.fused_adam.FusedAdam"},
      {"loss_fn", root + "loss.masked_ce.MaskedCrossEntropy"},
      {"loss_fn", root + "loss.chunked_ce.ChunkedCrossEntropy"},
      {"loss_fn", root + "loss.linear_ce.FusedLinearCrossEntropy"},
      {"loss_fn", root + "loss.te_parallel_ce.TEParallelCrossEntropy"},
      {"loss_fn", root + "loss.kd_loss.KDLoss"},
      {"dataset", root + "datasets.llm.hellaswag.HellaSwag"},
      {"dataset", "glmtune.PretokenizedDataset"},
      {"dataloader", "torch.utils.data.DataLoader"},
      {"collate_fn", root + "datasets.utils.default_collater"},
      {"collate_fn", "default"},
      {"peft", root + "_peft.lora.PeftConfig"},
      {"rng", root + "training.rng.StatefulRNG"},
      {"mp_policy", "torch.distributed.fsdp.MixedPrecisionPolicy"},
      {"offload_policy", "torch.distributed.fsdp.CPUOffloadPolicy"}};
  for (const auto& [group, path] : known) EXPECT_NE(find_target(group, path), nullptr) << path;
  EXPECT_EQ(find_target("optimizer", "torch.optim.SGD"), nullptr);
  EXPECT_EQ(find_target("dataset", "torch.optim.Adam"), nullptr);
}

// recipes.md 1.10.
TEST(RecipeFile, TypesHaveSeveralNames) {
  for (const char* name : {"float32", "torch.float32", "fp32", "f32"})
    EXPECT_EQ(small({std::string("--model.torch_dtype=") + name}).recipe.model.torch_dtype,
              DType::kF32)
        << name;
  for (const char* name : {"bf16", "bfloat16", "torch.bfloat16"})
    EXPECT_EQ(small({std::string("--model.torch_dtype=") + name}).recipe.model.torch_dtype,
              DType::kBF16)
        << name;
  for (const char* name : {"float64", "fp64", "f64"})
    EXPECT_EQ(small({std::string("--model.torch_dtype=") + name}).recipe.model.torch_dtype,
              DType::kF64);
  EXPECT_EQ(small({"--model.torch_dtype=auto"}).recipe.model.torch_dtype, std::nullopt);
}

// recipes.md 1.2: a class name, bare or dotted, or a map.
TEST(RecipeFile, TheRecipeMayBeNamedByAMap) {
  const std::string rest =
      std::string(kSmallRecipe).substr(std::string(kSmallRecipe).find('\n') + 1);
  const std::string dotted =
      "nemo_automodel.recipes.llm.train_ft.TrainFinetuneRecipeForNextTokenPrediction";
  EXPECT_EQ(error_of("recipe: " + dotted + "\n" + rest), "");
  EXPECT_EQ(error_of("recipe: {_target_: " + dotted + "}\n" + rest), "");
  EXPECT_TRUE(contains(error_of("recipe: {_target_: my.Recipe}\n" + rest), "known here: Train"));
  EXPECT_TRUE(contains(error_of("recipe: {}\n" + rest), "needs _target_"));
}

// recipes.md 1.4.
TEST(RecipeFile, TheFirstStepAndEpochMayBeGiven) {
  const Recipe recipe =
      small({"--step_scheduler.start_step=2", "--step_scheduler.start_epoch=1"}).recipe;
  EXPECT_EQ(recipe.step_scheduler.start_step, 2);
  EXPECT_EQ(recipe.step_scheduler.start_epoch, 1);
}

TEST(RecipeFile, ActivationCheckpointingWords) {
  const auto read = [](const char* word) {
    return small({std::string("--distributed.activation_checkpointing=") + word})
        .recipe.distributed.activation_checkpointing;
  };
  for (const char* word : {"true", "True", "full", "on", "enabled", "yes"})
    EXPECT_EQ(read(word), ActivationCheckpointing::kFull) << word;
  for (const char* word : {"false", "off", "none", "disabled", "no", "null"})
    EXPECT_EQ(read(word), ActivationCheckpointing::kOff) << word;
  EXPECT_EQ(read("selective"), ActivationCheckpointing::kSelective);
}

TEST(RecipeFile, ConfigYamlHoldsTheOverridesAndReadsBack) {
  const RecipeFile file = small({"--optimizer.lr=2e-5", "--dataset.split=train[:10]"});
  const RecipeFile again = parse(file.yaml);
  EXPECT_EQ(again.recipe.optimizer.lr, 2e-5);
  EXPECT_EQ(io::to_json(resolved_keys(again.checked)), io::to_json(resolved_keys(file.checked)));
}

}  // namespace
}  // namespace glmtune::train
