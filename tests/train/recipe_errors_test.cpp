#include <gtest/gtest.h>

#include <fstream>

#include "base/cat.h"
#include "support/temp_folder.h"
#include "train/recipe_file.h"
#include "train/recipe_support.h"

namespace glmtune::train {
namespace {

// user_reports 75; recipes.md section 5, 3, and 7.1
TEST(RecipeErrors, UnknownKeysAreNamedWithLineAndNearestKey) {
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

// recipes.md 1.3, 1.5 and 7.3: also below sections that do not run yet, or are ignored.
TEST(RecipeErrors, NothingUnknownHidesBelowSectionsWithoutEffect) {
  const struct {
    const char* argument;
    const char* part;
  } cases[] = {
      {"--neftune.noise_alhpa=3", "unknown key neftune.noise_alhpa; nearest: noise_alpha"},
      {"--model.backend.mok.fwd_num=3", "nearest: fwd_num_comm_sms"},
      {"--model.backend.te_fp8.recpie=block", "nearest: recipe"},
      {"--model.backend.te_fp8.recipe=blocks", "expected one of: current, block, mxfp8"},
      {"--model.backend.cuda_graph.modules=[attn, foo]",
       "modules[1] is 'foo'; expected one of: attn, te_dpa, moe_router, moe_preprocess"},
      {"--model.backend.cuda_graph.module=[attn]", "nearest: modules"},
      {"--distributed.offload_policy._target_=foo.bar",
       "known here: torch.distributed.fsdp.CPUOffloadPolicy"},
      {"--distributed.moe.mp_policy._target_=foo",
       "known here: torch.distributed.fsdp.MixedPrecisionPolicy"},
      {"--distributed.moe.mp_policy.param_type=bf16", "nearest: param_dtype"},
      {"--rng._target_=foo.bar", "known here: nemo_automodel.components.training.rng.StatefulRNG"},
      {"--rng.sed=1", "unknown key rng.sed; nearest: seed"},
      {"--wandb=true", "wandb is 'true'; expected a map of keys"},
      {"--mtp=3", "mtp is '3'; expected a map of keys"},
      {"--quantization=int4", "expected a map of keys"},
  };
  for (const auto& c : cases)
    EXPECT_TRUE(contains(small_error({c.argument}), c.part)) << c.argument << "\n"
                                                             << small_error({c.argument});
}

// A recipe is turned to another _target_ key by key.
TEST(RecipeErrors, NullLeavesOutAKeyOfTheOtherTarget) {
  std::string text = kSmallRecipe;
  const std::string name = "  pretrained_model_name_or_path: /models/tiny\n";
  text.replace(text.find(name), name.size(),
               "  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config\n"
               "  config: {pretrained_model_name_or_path: zai-org/GLM-5}\n"
               "checkpoint: {enabled: false}\n");
  std::vector<std::string> arguments{
      "--model._target_=nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
      "--model.pretrained_model_name_or_path=/models/tiny"};
  EXPECT_TRUE(contains(error_of(text, arguments),
                       "unknown key model.config of from_pretrained (it is a key of from_config); "
                       "nearest: "));
  EXPECT_TRUE(contains(error_of(text, arguments), "; --model.config null leaves it out"));
  // One that the command line gives is wanted: the target is what does not fit.
  arguments = {"--model.pretrained_model_name_or_path=/models/tiny"};
  EXPECT_TRUE(contains(error_of(text, arguments),
                       "; --model._target_ nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained "
                       "takes it"));
  arguments.emplace_back(
      "--model._target_=nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained");
  arguments.emplace_back("--model.config=null");
  EXPECT_EQ(error_of(text, arguments), "");
  EXPECT_NE(small_error({"--model.confg=null"}), "");
}

// user_reports 12 and 76: PyYAML's booleans are words here, and a template takes words for true.
TEST(RecipeErrors, SwitchWordsAreRefusedWhereNothingSaysTheType) {
  const std::string key = "--dataset.chat_template_kwargs.enable_thinking";
  for (const char* word : {"off", "no", "Off", "YES", "on", "n"})
    EXPECT_TRUE(contains(small_error({cat(key, "=", word)}),
                         cat("argument ", key,
                             ": dataset.chat_template_kwargs.enable_thinking is "
                             "the word ",
                             word, "; write true or false")))
        << word;
  EXPECT_TRUE(contains(small_error({"--wandb.settings={x: [1, off]}"}), "wandb.settings.x[1] is"));
  EXPECT_EQ(small_error({cat(key, "='off'"), "--wandb={column: n, resume: never}"}), "");
  EXPECT_EQ(small_error({"--ci.x=off"}), "");
  EXPECT_TRUE(small({cat(key, "=false")}).checked.warnings.empty());
  const RecipeFile quoted = small({cat(key, "='false'")});
  ASSERT_EQ(quoted.checked.warnings.size(), 1u);
  EXPECT_TRUE(contains(quoted.checked.warnings[0],
                       "enable_thinking is the text 'false', and a template takes any text for "
                       "true; remove the quotes"));
}

TEST(RecipeErrors, ABatchThatDoesNotDivideNamesTheNearestOnes) {
  EXPECT_TRUE(contains(
      small_error({"--step_scheduler.global_batch_size=5", "--step_scheduler.local_batch_size=2"}),
      "expected a multiple of local_batch_size 2; nearest: 4 or 6"));
}

TEST(RecipeErrors, KeysOfAnotherPlaceAreExplained) {
  EXPECT_TRUE(contains(small_error({"--pp_size=2"}), "elsewhere: distributed.pp_size"));
  EXPECT_FALSE(contains(small_error({"--lr=2"}), "nearest"));
  EXPECT_TRUE(contains(small_error({"--lr=2"}), "elsewhere: optimizer.lr"));
  EXPECT_TRUE(contains(small_error({"--optimizer.learning_rate=2"}), "nearest: lr"));
  EXPECT_TRUE(contains(small_error({"--dataset.num_samples_limit=2"}),
                       "unknown key dataset.num_samples_limit of ChatDataset (it is a key of "
                       "HellaSwag)"));
  EXPECT_TRUE(contains(small_error({"--slurm.nodes=2"}), "sbatch"));
}

TEST(RecipeErrors, SeveralMistakesAreReportedTogether) {
  const std::string message = small_error({"--optimizer.lr=fast", "--sed=1"});
  EXPECT_TRUE(contains(message, "optimizer.lr is 'fast'; expected a number"));
  EXPECT_TRUE(contains(message, "unknown key sed; nearest: seed"));
}

TEST(RecipeErrors, WrongTypesAreNamedWithWhatWasExpected) {
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
      {"--lr_scheduler.lr_warmup_steps=10", "lower lr_scheduler.lr_warmup_steps (now 10)"},
      {"--optimizer.param_group_overrides={a: 1}", "expected a list of maps"},
      {"--optimizer.param_group_overrides=[{lr_mult: 2}]", "needs the key pattern"},
      {"--optimizer.param_group_overrides=[{pattern: '['}]", "not a regular expression"},
      {"--optimizer.param_group_overrides=[{pattern: 'a(?=b)'}]", "look-around"},
      {"--dataset.max_dropped_fraction=2", "share from 0 to 1"},
      {"--dataset.chat_template=/no/such.jinja", "no such file"},
      {"--seed=-1", "expected a whole number, 0 or more"},
  };
  for (const auto& c : cases)
    EXPECT_TRUE(contains(small_error({c.argument}), c.part)) << c.argument << "\n"
                                                             << small_error({c.argument});
}

TEST(RecipeErrors, NumbersBeyondWhatIsStoredNameTheLimit) {
  EXPECT_TRUE(
      contains(small_error({"--optimizer.lr=1e400"}),
               "expected a number, 0 or more that double precision holds, 4.9e-324 to 1.8e308"))
      << small_error({"--optimizer.lr=1e400"});
  EXPECT_TRUE(
      contains(small_error({"--seed=18446744073709551616"}), "at most 9223372036854775807"));
}

TEST(RecipeErrors, ArgumentsAreTextThatAPathMayHave) {
  EXPECT_TRUE(contains(small_error({"--checkpoint.checkpoint_dir=ck\xff"}), "not UTF-8 text"));
  EXPECT_TRUE(
      contains(error_of(std::string(kSmallRecipe) + "checkpoint: {checkpoint_dir: \"ck\\0x\"}\n"),
               "ck\\0: a zero byte"));
  EXPECT_TRUE(contains(error_of(std::string(kSmallRecipe) + '\0'), "or a zero byte"));
}

TEST(RecipeErrors, ARunWithoutCheckpointsGoesOnFromNone) {
  EXPECT_TRUE(
      contains(small_error({"--checkpoint.enabled=false", "--checkpoint.restore_from=LATEST"}),
               "checkpoint.restore_from is 'LATEST'; checkpoint.enabled is false"));
}

TEST(RecipeErrors, TheBestMetricIsThatOfAValidationSet) {
  const auto with_sets = [](std::vector<std::string> names, const std::string& argument) {
    std::string text = kSmallRecipe;
    for (const std::string& name : names)
      text += cat(name,
                  ":\n  _target_: nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset\n"
                  "  path_or_dataset_id: chat.jsonl\n");
    return parse(text, argument.empty() ? std::vector<std::string>{} : std::vector{argument});
  };
  const auto error = [&](const std::vector<std::string>& names, const std::string& argument) {
    try {
      with_sets(names, argument);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const std::vector<std::string> both{"validation_dataset", "validation_dataset_math"};
  const std::string key = "--checkpoint.best_metric_key=";
  EXPECT_TRUE(contains(error(both, key + "foo"),
                       "checkpoint.best_metric_key is 'foo'; expected the name of a validation set "
                       "of the recipe: default (validation_dataset), math "
                       "(validation_dataset_math)"))
      << error(both, key + "foo");
  EXPECT_NE(error({"validation_dataset_math"}, key + "default"), "");
  EXPECT_EQ(error(both, key + "math"), "");
  EXPECT_EQ(error(both, ""), "");
  EXPECT_EQ(error({}, key + "foo"), "");  // without validation nothing is the lowest
  const std::vector<std::string> warnings =
      with_sets({"validation_dataset_math"}, "").checked.warnings;
  ASSERT_FALSE(warnings.empty());
  EXPECT_TRUE(contains(warnings.back(), "set it to math (validation_dataset_math)"))
      << warnings.back();
}

TEST(RecipeErrors, MissingSectionsAndKeysAreNamed) {
  EXPECT_TRUE(contains(error_of("seed: 1\n"), "the recipe needs the key recipe"));
  EXPECT_TRUE(contains(error_of("seed: 1\n"), "needs the key model"));
  EXPECT_TRUE(contains(error_of("seed: 1\n"), "needs the key dataset"));
  EXPECT_TRUE(contains(error_of("seed: 1\n"), "needs the key optimizer"));
  EXPECT_TRUE(contains(small_error({"--dataset.path_or_dataset_id=null"}),
                       "dataset (ChatDataset) needs the key path_or_dataset_id"));
  EXPECT_TRUE(contains(small_error({"--dataset._target_=null"}), "dataset needs _target_"));
}

TEST(RecipeErrors, SettingsThatContradictEachOtherAreNamed) {
  EXPECT_TRUE(contains(small_error({"--lr_scheduler.min_lr=1"}), "lr_scheduler.min_lr"));
  EXPECT_TRUE(contains(small_error({"--lr_scheduler.override_opt_param_scheduler=true",
                                    "--lr_scheduler.use_checkpoint_opt_param_scheduler=true"}),
                       "not together"));
  EXPECT_TRUE(contains(small_error({"--distributed.pp_size=2"}), "distributed.pipeline"));
  EXPECT_TRUE(contains(small_error({"--step_scheduler.local_batch_size=5"}),
                       "expected a multiple of local_batch_size 5"));
}

TEST(RecipeErrors, APipelineScheduleIsOneOfTorchs) {
  const std::string key = "--distributed.pipeline.pp_schedule=";
  EXPECT_TRUE(contains(small_error({key + "foo"}),
                       "distributed.pipeline.pp_schedule is 'foo'; expected one of: 1f1b, "
                       "interleaved1f1b, gpipe"))
      << small_error({key + "foo"});
  for (const char* name : {"1f1b", "Interleaved1F1B", "ZBVZeroBubble"})
    EXPECT_EQ(small_error({key + name}), "") << name;
}

// recipes.md 1.7: what chooses LoRA's modules excludes each other.
TEST(RecipeErrors, LoraModulesAreChosenInOneWay) {
  EXPECT_TRUE(contains(small_error({"--peft.target_modules=[a]", "--peft.exclude_modules=[b]"}),
                       "not together with peft.target_modules"));
  EXPECT_TRUE(contains(small_error({"--peft.target_modules=a", "--peft.match_all_linear=true"}),
                       "not together with peft.match_all_linear"));
  EXPECT_EQ(small_error({"--peft.target_modules=a", "--peft.match_all_linear=false"}), "");
}

TEST(RecipeErrors, AMalformedSplitIsNamedWithItsLine) {
  for (const char* split : {"train[:", "train[10]", "train[a:b]", "train[:200%]", "[:10]",
                            "train+test", "train]", "train[:1]x"})
    EXPECT_TRUE(contains(
        error_of(std::string(kSmallRecipe), {std::string("--dataset.split=") + "'" + split + "'"}),
        std::string("argument --dataset.split: dataset.split is '") + split + "'; "))
        << split;
  for (const char* split :
       {"train", "train[:100000]", "train[10%:20%]", "train[-5:]", "test[ 1 : ]"})
    EXPECT_EQ(small_error({std::string("--dataset.split='") + split + "'"}), "") << split;
}

// recipes.md 1.4.
TEST(RecipeErrors, TheFirstStepLiesBeforeTheLast) {
  EXPECT_TRUE(contains(small_error({"--step_scheduler.start_step=3"}),
                       "step_scheduler.start_step is 3; expected a step before the last one"));
  EXPECT_TRUE(contains(small_error({"--step_scheduler.start_epoch=10"}), "num_epochs is 10"));
  EXPECT_EQ(small_error({"--step_scheduler.start_step=2"}), "");
}

// A run would refuse them, and so does check.
TEST(RecipeErrors, RowsThatArePacksAreNotPackedAgain) {
  const std::string mock =
      "dataset: {_target_: nemo_automodel.components.datasets.llm.mock_iterable_dataset."
      "MockIterableDataset, vocab_size: 320, seq_len: 24, num_samples: 7}\n";
  const std::string chat = std::string(kSmallRecipe);
  const std::size_t begin = chat.find("dataset:");
  const std::string trains = chat.substr(0, begin) + mock + chat.substr(chat.find("optimizer:"));
  const std::string packs = "--packed_sequence.packed_sequence_size=256";
  for (const std::string& text : {trains, chat + "validation_" + mock})
    EXPECT_TRUE(contains(error_of(text, {packs}),
                         "packed_sequence.packed_sequence_size is 256; rows of a "
                         "MockIterableDataset"))
        << error_of(text, {packs});
  EXPECT_EQ(error_of(trains), "");
  EXPECT_EQ(error_of(chat, {packs}), "");
}

TEST(RecipeErrors, RandomWeightsHaveNoHuggingFaceFolderToSaveBeside) {
  std::string text = kSmallRecipe;
  const std::string named = "pretrained_model_name_or_path: /models/tiny";
  text.replace(text.find(named), named.size(),
               "_target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config\n"
               "  config: {_target_: transformers.AutoConfig.from_pretrained, " +
                   named + "}");
  EXPECT_TRUE(contains(error_of(text), "checkpoint.enabled")) << error_of(text);
  EXPECT_TRUE(contains(error_of(text, {"--checkpoint.enabled=true"}),
                       "checkpoint.enabled is true; from_config gives random weights"))
      << error_of(text, {"--checkpoint.enabled=true"});
  EXPECT_EQ(error_of(text, {"--checkpoint.enabled=false"}), "");
  EXPECT_EQ(error_of(text, {"--checkpoint.save_consolidated=never"}), "");
}

// recipes.md 1.2: the benchmark recipe needs its section.
TEST(RecipeErrors, TheBenchmarkRecipeNeedsItsSection) {
  EXPECT_TRUE(contains(small_error({"--recipe=BenchmarkingRecipeForNextTokenPrediction"}),
                       "needs the section benchmark"));
}

// recipes.md 2.1.
TEST(RecipeErrors, ARecipeIsAYamlFile) {
  const TempFolder temp;
  const std::string path = temp / "recipe.json";
  std::ofstream(path) << "{}";
  try {
    read_recipe(path, {}, [](const std::string&) { return std::nullopt; });
    FAIL();
  } catch (const Error& e) {
    EXPECT_TRUE(contains(e.what(), "recipe.json: a recipe's name ends in .yaml or .yml"));
  }
}

TEST(RecipeErrors, TruncatedRecipesNeverPass) {
  const std::string text = kSmallRecipe;
  for (std::size_t n = 0; n + 3 < text.size(); ++n) {
    const std::string message = error_of(text.substr(0, n));
    // Cut inside the last value, a shorter path or class name may still be a recipe.
    if (message.empty()) {
      EXPECT_TRUE(contains(text.substr(0, n), "optimizer:")) << n;
    }
  }
}

}  // namespace
}  // namespace glmtune::train
