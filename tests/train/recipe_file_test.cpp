#include "train/recipe_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"
#include "train/recipe_support.h"

namespace glmtune::train {
namespace {

const io::Value& value(const RecipeFile& file, const std::string& path) {
  const CheckedKey* key = file.checked.find(path);
  if (key == nullptr) fail("no key " + path);
  return key->value;
}

// ---- what is accepted --------------------------------------------------------------------------

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
  EXPECT_FALSE(bf16.optimizer.stochastic_rounding);
  const Recipe stochastic = small({"--optimizer.master_weights=bf16_stochastic"}).recipe;
  EXPECT_EQ(stochastic.optimizer.master_weights, MasterWeights::kBf16);
  EXPECT_EQ(stochastic.optimizer.exp_avg_dtype, DType::kBF16);
  EXPECT_TRUE(stochastic.optimizer.stochastic_rounding);
  EXPECT_EQ(bf16.optimizer.exp_avg_dtype, DType::kBF16);
  const std::string fused = "--optimizer._target_=transformer_engine.pytorch.optimizers.FusedAdam";
  const Recipe te = small({fused, "--optimizer.master_weights=false",
                           "--optimizer.exp_avg_sq_dtype=torch.bfloat16"})
                        .recipe;
  EXPECT_EQ(te.optimizer.master_weights, MasterWeights::kBf16);
  EXPECT_EQ(te.optimizer.exp_avg_dtype, DType::kF32);
  EXPECT_EQ(te.optimizer.exp_avg_sq_dtype, DType::kBF16);
  EXPECT_EQ(small({fused}).recipe.optimizer.master_weights, MasterWeights::kFp32);
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

TEST(RecipeFile, DataSettingsArriveTyped) {
  const RecipeFile file =
      small({"--dataset.split=train[:10]", "--dataset.shuffle_seed=7", "--dataset.truncation=true",
             "--dataset.seq_length=64", "--dataset.supervise_next_role=false",
             "--dataset.chat_template_kwargs={enable_thinking: false}", "--dataset.name=en",
             "--dataset.tokenizer.pretrained_model_name_or_path=/tok",
             "--packed_sequence.packed_sequence_size=128", "--dataloader.shuffle=true",
             "--dataset.path_or_dataset_id=[a.jsonl, b.jsonl]", "--seed=9"});
  const DatasetEntry& entry = file.recipe.dataset;
  EXPECT_EQ(entry.target, "ChatDataset");
  EXPECT_EQ(entry.sources, (std::vector<std::string>{"a.jsonl", "b.jsonl"}));
  EXPECT_EQ(entry.subset, "en");
  EXPECT_EQ(entry.tokenizer, "/tok");
  EXPECT_EQ(entry.packing.packed_sequence_size, 128);
  EXPECT_TRUE(entry.packing.shuffle);
  EXPECT_EQ(entry.packing.seed, 9u);
  const auto& chat = std::get<data::ChatSettings>(entry.settings);
  EXPECT_EQ(chat.rows.split, "train[:10]");
  EXPECT_EQ(chat.rows.shuffle_seed, 7u);
  EXPECT_EQ(chat.too_long, data::TooLong::kTruncate);
  EXPECT_EQ(chat.seq_length, 64);
  EXPECT_FALSE(chat.supervise_next_role);
  EXPECT_TRUE(chat.supervise_last_stop);
  EXPECT_EQ(chat.chat_template_kwargs.find("enable_thinking")->as_bool(), false);
}

TEST(RecipeFile, SeveralValidationSetsByName) {
  const std::string set =
      ":\n  _target_: nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset\n"
      "  path_or_dataset_id: v.jsonl\n"
      "  tokenizer: {pretrained_model_name_or_path: /t}\n";
  const RecipeFile file =
      parse(kSmallRecipe + ("validation_dataset" + set) + "validation_dataset_math" + set +
            "validation_dataset-code" + set + "validation_dataset.law" + set);
  ASSERT_EQ(file.recipe.validation_datasets.size(), 4u);
  EXPECT_EQ(file.recipe.validation_datasets[0].name, "default");
  EXPECT_EQ(file.recipe.validation_datasets[1].name, "math");
  EXPECT_EQ(file.recipe.validation_datasets[2].name, "code");
  EXPECT_EQ(file.recipe.validation_datasets[3].name, "law");
  EXPECT_EQ(file.recipe.validation_datasets[3].key, "validation_dataset.law");
}

TEST(RecipeFile, EveryDataSetKindIsBuilt) {
  const std::string llm = "--dataset._target_=nemo_automodel.components.datasets.llm.";
  const std::string head =
      "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
      "model: {pretrained_model_name_or_path: m}\noptimizer: {_target_: torch.optim.Adam}\n"
      "step_scheduler: {max_steps: 1}\n";
  const auto entry = [&](const std::vector<std::string>& arguments) {
    return parse(head, arguments).recipe.dataset;
  };
  EXPECT_EQ(std::get<data::HellaSwagSettings>(
                entry({llm + "hellaswag.HellaSwag", "--dataset.path_or_dataset=rowan/hellaswag",
                       "--dataset.num_samples_limit=64"})
                    .settings)
                .rows.limit,
            64);
  EXPECT_EQ(std::get<data::SquadSettings>(entry({llm + "squad.make_squad_dataset"}).settings).paths,
            (std::vector<std::string>{"squad"}));
  EXPECT_EQ(std::get<data::MockSettings>(
                entry({llm + "mock_iterable_dataset.MockIterableDataset"}).settings)
                .num_samples,
            1000000);
  const std::string mapped =
      "column_mapped_text_instruction_dataset.ColumnMappedTextInstructionDataset";
  EXPECT_EQ(std::get<data::ColumnMappedSettings>(
                entry({llm + mapped, "--dataset.path_or_dataset_id=x.jsonl",
                       "--dataset.column_mapping={question: q, answer: a}"})
                    .settings)
                .column_mapping.size(),
            2u);
  EXPECT_EQ(
      std::get<data::PretokenizedSettings>(
          entry({"--dataset._target_=glmtune.PretokenizedDataset", "--dataset.path=r.st"}).settings)
          .path,
      "r.st");
}

TEST(RecipeFile, PretokenizedDataAreInOrderAndNeedAnEnd) {
  const std::string head =
      "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
      "model: {pretrained_model_name_or_path: m}\noptimizer: {_target_: torch.optim.Adam}\n"
      "dataset: {_target_: glmtune.PretokenizedDataset, path: r.safetensors}\n";
  EXPECT_TRUE(contains(error_of(head), "set step_scheduler.max_steps"));
  EXPECT_TRUE(
      contains(error_of(head, {"--step_scheduler.max_steps=1", "--dataloader.shuffle=true"}),
               "set shuffle to false"));
  EXPECT_EQ(error_of(head, {"--step_scheduler.max_steps=1"}), "");
}

// ---- what is refused ---------------------------------------------------------------------------

// user_reports 75
TEST(RecipeFile, UnknownKeysAreNamedWithLineAndNearestKey) {
  EXPECT_TRUE(contains(error_of(std::string(kSmallRecipe) + "distributed:\n  pp_sze: 2\n"),
                       "recipe.yaml:12: unknown key distributed.pp_sze; nearest: pp_size"));
  EXPECT_TRUE(contains(error_of(std::string(kSmallRecipe) + "optimzer: {lr: 1}\n"),
                       "recipe.yaml:11: unknown key optimzer; nearest: optimizer"));
  EXPECT_TRUE(contains(
      error_of(std::string(kSmallRecipe) + "packed_sequence:\n  packed_sequence_sizes: 1\n"),
      "nearest: packed_sequence_size"));
  for (const char* key : {"distributed.x", "dataset.x", "dataloader.x", "packed_sequence.x",
                          "step_scheduler.x", "model.x", "model.backend.x", "x", "checkpoint.x",
                          "loss_fn.x", "lr_scheduler.x", "peft.x", "mfu.x", "prewarm.x"})
    EXPECT_TRUE(contains(small_error({std::string("--") + key + "=1"}),
                         std::string("argument --") + key + ": unknown key " + key + "; nearest: "))
        << key;
}

TEST(RecipeFile, KeysOfAnotherPlaceAreExplained) {
  EXPECT_TRUE(contains(small_error({"--pp_size=2"}), "elsewhere: distributed.pp_size"));
  EXPECT_TRUE(contains(small_error({"--dataset.num_samples_limit=2"}),
                       "unknown key dataset.num_samples_limit of ChatDataset (it is a key of "
                       "HellaSwag)"));
  EXPECT_TRUE(contains(small_error({"--slurm.nodes=2"}), "sbatch"));
}

TEST(RecipeFile, SeveralMistakesAreReportedTogether) {
  const std::string message = small_error({"--optimizer.lr=fast", "--sed=1"});
  EXPECT_TRUE(contains(message, "optimizer.lr is 'fast'; expected a number"));
  EXPECT_TRUE(contains(message, "unknown key sed; nearest: seed"));
}

TEST(RecipeFile, WrongTypesAreNamedWithWhatWasExpected) {
  const struct {
    const char* argument;
    const char* part;
  } cases[] = {
      {"--dataloader.shuffle=yes", "dataloader.shuffle is 'yes'; expected true or false"},
      {"--step_scheduler.global_batch_size=0", "expected a whole number, 1 or more"},
      {"--step_scheduler.global_batch_size=1.5", "expected a whole number, 1 or more"},
      {"--step_scheduler.max_steps=-1", "is '-1'; expected a whole number, 0 or more"},
      {"--optimizer.lr=[1]", "optimizer.lr is a list; expected a number"},
      {"--optimizer.lr=.inf", "optimizer.lr is '.inf'; expected a number"},
      {"--optimizer.lr=.nan", "expected a number"},
      {"--optimizer=3", "optimizer is '3'; expected a map of keys"},
      {"--optimizer.betas=0.9", "optimizer.betas is '0.9'; expected a list of numbers"},
      {"--optimizer.betas=[0.9]", "expected two numbers"},
      {"--optimizer.betas=[0.9, 1]", "expected two numbers"},
      {"--optimizer.betas=[0.9, x]", "optimizer.betas[1] is 'x'; expected a number"},
      {"--model.torch_dtype=int8", "model.torch_dtype is 'int8'; expected a type"},
      {"--model.backend.attn=flash", "expected one of: cudnn, tilelang, flashmla, te"},
      {"--nonfinite_policy=ignore", "expected one of: stop, skip"},
      {"--optimizer._target_=torch.optim.SGD", "known here: torch.optim.Adam, torch.optim.AdamW"},
      {"--dataset._target_=my.Dataset", "known here: nemo_automodel.components.datasets.llm."},
      {"--dataloader.collate_fn=my.collate", "known here: nemo_automodel"},
      {"--recipe=Foo", "TrainFinetuneRecipeForNextTokenPrediction"},
      {"--dataset.path_or_dataset_id={a: 1}", "expected a string or a list of strings"},
      {"--lr_scheduler.lr_warmup_steps=0.1", "expected a whole number"},
      {"--optimizer.param_group_overrides={a: 1}", "expected a list of maps"},
      {"--optimizer.param_group_overrides=[{lr_mult: 2}]", "needs the key pattern"},
      {"--optimizer.param_group_overrides=[{pattern: '['}]", "not a regular expression"},
      {"--dataset.max_dropped_fraction=2", "share from 0 to 1"},
      {"--dataset.chat_template=/no/such.jinja", "no such file"},
      {"--seed=-1", "expected a whole number, 0 or more"},
  };
  for (const auto& c : cases)
    EXPECT_TRUE(contains(small_error({c.argument}), c.part)) << c.argument << "\n"
                                                             << small_error({c.argument});
}

TEST(RecipeFile, MissingSectionsAndKeysAreNamed) {
  EXPECT_TRUE(contains(error_of("seed: 1\n"), "the recipe needs the key recipe"));
  EXPECT_TRUE(contains(error_of("seed: 1\n"), "needs the key model"));
  EXPECT_TRUE(contains(error_of("seed: 1\n"), "needs the key dataset"));
  EXPECT_TRUE(contains(error_of("seed: 1\n"), "needs the key optimizer"));
  EXPECT_TRUE(contains(small_error({"--dataset.path_or_dataset_id=null"}),
                       "dataset (ChatDataset) needs the key path_or_dataset_id"));
  EXPECT_TRUE(contains(small_error({"--dataset._target_=null"}), "dataset needs _target_"));
}

TEST(RecipeFile, SettingsThatContradictEachOtherAreNamed) {
  EXPECT_TRUE(contains(small_error({"--lr_scheduler.min_lr=1"}), "lr_scheduler.min_lr"));
  EXPECT_TRUE(contains(small_error({"--lr_scheduler.override_opt_param_scheduler=true",
                                    "--lr_scheduler.use_checkpoint_opt_param_scheduler=true"}),
                       "not together"));
  EXPECT_TRUE(contains(small_error({"--distributed.pp_size=2"}), "distributed.pipeline"));
  EXPECT_TRUE(contains(small_error({"--step_scheduler.local_batch_size=5"}),
                       "expected a multiple of local_batch_size 5"));
}

TEST(RecipeFile, TruncatedRecipesNeverPass) {
  const std::string text = kSmallRecipe;
  for (std::size_t n = 0; n + 3 < text.size(); ++n) {
    const std::string message = error_of(text.substr(0, n));
    // Cut inside the last value, a shorter path or class name may still be a recipe.
    if (message.empty()) {
      EXPECT_TRUE(contains(text.substr(0, n), "optimizer:")) << n;
    }
  }
}

// ---- overrides ---------------------------------------------------------------------------------

TEST(RecipeOverrides, LaterOnesWinAndMapsAreMade) {
  const RecipeFile file =
      small({"--optimizer.lr=1", "--optimizer.lr", "2e-5", "--checkpoint.enabled", "false",
             "--lr_scheduler.lr_decay_style=constant"});
  EXPECT_EQ(file.recipe.optimizer.lr, 2e-5);
  EXPECT_FALSE(file.recipe.checkpoint.enabled);
  ASSERT_TRUE(file.recipe.lr_scheduler.has_value());
}

TEST(RecipeOverrides, AFlagAloneIsTrue) {
  EXPECT_TRUE(small({"--dataloader.shuffle"}).recipe.dataloader.shuffle);
  EXPECT_TRUE(small({"--dataloader.shuffle", "--seed=1"}).recipe.dataloader.shuffle);
}

TEST(RecipeOverrides, NegativeNumbersAreValues) {
  EXPECT_TRUE(contains(small_error({"--seed", "-1"}), "seed is '-1'"));
}

TEST(RecipeOverrides, StrayWordsAreSkippedWithAWarning) {
  const RecipeFile file = small({"--seed=1", "stray"});
  ASSERT_EQ(file.checked.warnings.size(), 1u);
  EXPECT_TRUE(contains(file.checked.warnings[0], "argument stray is skipped"));
}

TEST(RecipeOverrides, BadNamesAndBadTargetsAreNamed) {
  EXPECT_TRUE(contains(small_error({"--"}), "expected --section.key=value"));
  EXPECT_TRUE(contains(small_error({"--a..b=1"}), "expected --section.key=value"));
  EXPECT_TRUE(contains(small_error({"--optimizer._target_.x=1"}), "not a map"));
  EXPECT_TRUE(contains(small_error({"--optimizer.betas=[0.9,"}), "expected a list of numbers"));
  EXPECT_TRUE(contains(small_error({"--optimizer.betas=[0.9,}]"}), "not valid YAML"));
}

// ---- interpolation and secrets -----------------------------------------------------------------

TEST(RecipeInterpolation, EverySpellingWorks) {
  const std::map<std::string, std::string> env{{"DIR", "/data"}, {"LR", "3e-4"}, {"a.b", "x"}};
  const auto path = [&](const std::string& text) {
    return parse(kSmallRecipe, {"--dataset.path_or_dataset_id=" + text}, env)
        .recipe.dataset.sources.at(0);
  };
  EXPECT_EQ(path("${DIR}/c.jsonl"), "/data/c.jsonl");
  EXPECT_EQ(path("$DIR/c.jsonl"), "/data/c.jsonl");
  EXPECT_EQ(path("${oc.env:DIR}/c.jsonl"), "/data/c.jsonl");
  EXPECT_EQ(path("${NOPE,/else}/c.jsonl"), "/else/c.jsonl");
  EXPECT_EQ(path("${oc.env:NOPE,/else}/c.jsonl"), "/else/c.jsonl");
  EXPECT_EQ(path("$a.b/c.jsonl"), "x/c.jsonl");
  EXPECT_EQ(path("costs 5$ or $5"), "costs 5$ or $5");
  EXPECT_EQ(parse(kSmallRecipe, {"--optimizer.lr=${LR}"}, env).recipe.optimizer.lr, 3e-4);
}

TEST(RecipeInterpolation, MissingVariablesAreNamed) {
  EXPECT_TRUE(contains(error_of(std::string(kSmallRecipe) + "  lr: ${NOPE}\n"),
                       "recipe.yaml:11: the environment variable NOPE is not set"));
  EXPECT_TRUE(contains(small_error({"--optimizer.lr=${NOPE"}), "${ without }"));
}

TEST(RecipeInterpolation, NothingUnderCiIsExpanded) {
  EXPECT_EQ(error_of(std::string(kSmallRecipe) + "ci:\n  x: ${NOPE}\n"), "");
}

TEST(RecipeSecrets, NeverReachWhatIsPrinted) {
  const std::map<std::string, std::string> env{{"KEY", "s3cret"}};
  const RecipeFile file = parse(std::string(kSmallRecipe) +
                                    "wandb:\n  project: p\n  api_key: hunter2\n"
                                    "comet: {api_key: \"${KEY}\"}\nci: {HF_TOKEN: hunter2}\n",
                                {"--model.pretrained_model_name_or_path=/m/$KEY"}, env);
  for (const std::string& text :
       {io::to_json(resolved_keys(file.checked)), resolved_lines(file.checked), file.yaml}) {
    EXPECT_FALSE(contains(text, "hunter2")) << text;
    EXPECT_FALSE(contains(text, "s3cret")) << text;
  }
  EXPECT_EQ(file.recipe.model.pretrained_model_name_or_path, "/m/s3cret");
  EXPECT_TRUE(contains(resolved_lines(file.checked), "wandb.project: p"));
  const std::string wrong = small_error({"--wandb.enable=hunter2"});
  EXPECT_TRUE(contains(wrong, "argument --wandb.enable:"));
}

// ---- what runs, what is ignored ----------------------------------------------------------------

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
  EXPECT_TRUE(
      contains(not_runnable_line(small({key + "bf16"}).checked),
               "distributed.mp_policy.param_dtype bf16 without the same model.torch_dtype"));
}

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

TEST(RecipeFile, OldModulePathsAndSpellingsAreRead) {
  EXPECT_EQ(small_error({"--model.backend._target_=nemo_automodel.models.common.BackendConfig"}),
            "");
  const std::string text =
      "recipe: nemo_automodel.recipes.llm.train_ft.TrainFinetuneRecipeForNextTokenPrediction\n"
      "model: {pretrained_model_name_or_path: m}\noptimizer: {_target_: torch.optim.Adam}\n"
      "dataloader:\n  dataset:\n    _target_: "
      "nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset\n    path_or_dataset_id: "
      "x\n";
  EXPECT_EQ(parse(text).recipe.dataset.target, "ChatDataset");
  EXPECT_TRUE(contains(parse(text).checked.warnings.at(0), "older spelling"));
  EXPECT_TRUE(contains(error_of(text + "dataset: {_target_: x}\n"), "remove one"));
}

TEST(RecipeFile, CollateFnMayBeAWordAPathOrAMap) {
  const std::string thd = "nemo_automodel.components.datasets.utils.packed_sequence_thd_collater";
  EXPECT_EQ(small_error({"--dataloader.collate_fn=" + thd}), "");
  EXPECT_EQ(small_error({"--dataloader.collate_fn=default"}), "");
  const RecipeFile map =
      small({"--dataloader.collate_fn._target_=nemo_automodel.components.datasets.utils."
             "default_collater",
             "--dataloader.collate_fn.pad_seq_len_divisible=160"});
  EXPECT_EQ(value(map, "dataloader.collate_fn.pad_seq_len_divisible").as_int(), 160);
  EXPECT_NE(small_error({"--dataloader.collate_fn.x=1"}), "");
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

TEST(RecipeFile, ChatTemplatesComeAsTextFileOrJson) {
  const TempFolder temp;
  const std::filesystem::path dir = temp.path();
  std::ofstream(dir / "t.jinja") << "{{ messages }}";
  std::ofstream(dir / "t.json") << "{\"chat_template\": \"{{ x }}\"}";
  std::ofstream(dir / "bad.json") << "{\"template\": 1}";
  const auto read = [](const std::string& text) {
    return std::get<data::ChatSettings>(
               small({"--dataset.chat_template=" + text}).recipe.dataset.settings)
        .chat_template;
  };
  EXPECT_EQ(read("{% for m in messages %}"), "{% for m in messages %}");
  EXPECT_EQ(read((dir / "t.jinja").string()), "{{ messages }}");
  EXPECT_EQ(read((dir / "t.json").string()), "{{ x }}");
  EXPECT_TRUE(contains(small_error({"--dataset.chat_template=" + (dir / "bad.json").string()}),
                       "no string chat_template"));
}

TEST(RecipeFile, ConfigYamlHoldsTheOverridesAndReadsBack) {
  const RecipeFile file = small({"--optimizer.lr=2e-5", "--dataset.split=train[:10]"});
  const RecipeFile again = parse(file.yaml);
  EXPECT_EQ(again.recipe.optimizer.lr, 2e-5);
  EXPECT_EQ(io::to_json(resolved_keys(again.checked)), io::to_json(resolved_keys(file.checked)));
}

}  // namespace
}  // namespace glmtune::train
