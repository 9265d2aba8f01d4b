#include <gtest/gtest.h>

#include <map>

#include "base/cat.h"
#include "train/recipe_file.h"
#include "train/recipe_support.h"

namespace glmtune::train {
namespace {

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

// An unset variable in a shell script must not quietly mean the default.
TEST(RecipeOverrides, AnEmptyValueIsAnErrorThatNamesItsArgument) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--checkpoint.checkpoint_dir="},
        {"--checkpoint.checkpoint_dir", ""},
        {"--seed=1", "--checkpoint.checkpoint_dir="}})
    EXPECT_TRUE(contains(small_error(arguments),
                         "argument --checkpoint.checkpoint_dir: the value is empty"))
        << small_error(arguments);
  EXPECT_TRUE(contains(small_error({"--seed="}), "argument --seed: the value is empty"));
  EXPECT_EQ(small({"--seed=null"}).recipe.seed, 42u);
  EXPECT_TRUE(contains(small_error({"--seed=\"\""}), "seed is ''; expected a whole number"));
  EXPECT_TRUE(contains(small_error({"--checkpoint.checkpoint_dir=''"}), "expected a folder"));
  EXPECT_EQ(small({"--checkpoint.restore_from=\"\""}).recipe.checkpoint.restore_from, "");
}

// So must a variable that is set to nothing, in the file too.
TEST(RecipeOverrides, AnEmptyVariableIsNotTheDefault) {
  const std::map<std::string, std::string> env{{"OUT", ""}};
  const std::string folder = std::string(kSmallRecipe) + "checkpoint: {checkpoint_dir: \"$OUT\"}\n";
  EXPECT_TRUE(contains(error_of(folder, {}, env), "checkpoint.checkpoint_dir is '$OUT'; expected"))
      << error_of(folder, {}, env);
  EXPECT_TRUE(contains(error_of(std::string(kSmallRecipe) + "seed: ${OUT}\n", {}, env),
                       "seed is '${OUT}'; expected a whole number"));
  EXPECT_EQ(parse(std::string(kSmallRecipe) + "seed: ${SEED,null}\n").recipe.seed, 42u);
}

// recipes.md 1.6: several validation sets.
TEST(RecipeOverrides, KeysWithDotsOfTheirOwnAreFound) {
  std::string text = kSmallRecipe;
  for (const char* name : {"validation_dataset", "validation_dataset.math"})
    text += cat(name,
                ":\n  _target_: nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset\n"
                "  path_or_dataset_id: chat.jsonl\n");
  const std::vector<std::string> settings{"--validation_dataset.math.split=train[:3]",
                                          "--validation_dataset.split=train[:5]"};
  const RecipeFile file = parse(text, settings);
  EXPECT_EQ(value(file, "validation_dataset.math.split").as_string(), "train[:3]");
  EXPECT_EQ(value(file, "validation_dataset.split").as_string(), "train[:5]");
  EXPECT_TRUE(contains(error_of(text, {"--validation_dataset.math.splt=x"}),
                       "unknown key validation_dataset.math.splt; nearest: split"));
  const RecipeFile ci = parse(std::string(kSmallRecipe) + "ci: {release: {a.b: 1}}\n",
                              {"--ci.release.a.b=2", "--ci.release.a.c=3"});
  EXPECT_EQ(io::to_json(value(ci, "ci")), "{\"release\": {\"a.b\": 2, \"a\": {\"c\": 3}}}");
}

TEST(RecipeOverrides, NegativeNumbersAreValues) {
  EXPECT_TRUE(contains(small_error({"--seed", "-1"}), "seed is '-1'"));
}

// AutoModel skips them; a setting whose dashes were forgotten would be lost.
TEST(RecipeOverrides, AStrayWordIsAnErrorThatNamesIt) {
  EXPECT_TRUE(contains(small_error({"--seed=1", "stray"}), "argument stray is neither a setting"));
  EXPECT_TRUE(contains(small_error({"--seed", "1", "optimizer.lr=2"}), "optimizer.lr=2"));
}

TEST(RecipeOverrides, BadNamesAndBadTargetsAreNamed) {
  EXPECT_TRUE(contains(small_error({"--"}), "expected --section.key=value"));
  EXPECT_TRUE(contains(small_error({"--a..b=1"}), "expected --section.key=value"));
  EXPECT_TRUE(contains(small_error({"--optimizer._target_.x=1"}), "not a map"));
  EXPECT_TRUE(contains(small_error({"--optimizer.betas=[0.9,"}), "expected a list of numbers"));
  EXPECT_TRUE(contains(small_error({"--optimizer.betas=[0.9,}]"}), "not valid YAML"));
}

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

// Lists and maps under such a key are hidden as a whole, wherever they stand.
TEST(RecipeSecrets, InListsAndMapsAreHiddenAsAWhole) {
  const std::string secrets =
      ": {name: shown, tokens: [hunter2, {a: hunter2}], auth: {user: hunter2, pass: hunter2}}\n";
  for (const char* section : {"nemo_run", "ci", "wandb", "quantization", "tool_call_eval"}) {
    const RecipeFile file = parse(std::string(kSmallRecipe) + section + secrets);
    const std::string json = io::to_json(resolved_keys(file.checked));
    for (const std::string& text :
         {json, resolved_lines(file.checked), file.yaml, io::to_json(file.recipe.settings)}) {
      EXPECT_FALSE(contains(text, "hunter2")) << text;
      EXPECT_TRUE(contains(text, "shown")) << text;
    }
  }
  const RecipeFile argument = small({"--wandb.settings.token=[hunter2, hunter2]"});
  EXPECT_FALSE(contains(argument.yaml + resolved_lines(argument.checked), "hunter2"));
  EXPECT_FALSE(contains(small_error({"--wandb.token=hunter2", "--wandb.token.x=1"}), "hunter2"));
}

TEST(RecipeSecrets, AreHiddenAlsoBesideAVariable) {
  const std::map<std::string, std::string> env{{"KEY", "abc"}};
  const auto yaml = [&](const std::string& value) {
    return parse(std::string(kSmallRecipe) + "wandb: {api_key: \"" + value + "\"}\n", {}, env).yaml;
  };
  for (const char* reference : {"$KEY", "${KEY}", "${oc.env:KEY}"})
    EXPECT_TRUE(contains(yaml(reference), cat("api_key: \"", reference, "\""))) << yaml(reference);
  for (const char* value : {"${KEY,hunter2}", "hunter2$KEY", "$KEY hunter2"})
    EXPECT_FALSE(contains(yaml(value), "hunter2")) << value;
}

// recipes.md 1.1: keys that hold such a word; keys of the recipe language itself are shown.
TEST(RecipeSecrets, AreToldByTheirKey) {
  for (const char* key :
       {"password", "my_secret", "HF_TOKEN", "apikey", "api_key", "Authorization", "basic_auth",
        "PASSWD", "passphrase", "credential", "credentials", "private_key", "access_key"}) {
    const RecipeFile file = parse(std::string(kSmallRecipe) + "wandb: {" + key + ": hunter2}\n");
    EXPECT_FALSE(contains(file.yaml + resolved_lines(file.checked), "hunter2")) << key;
  }
  const RecipeFile comet = parse(std::string(kSmallRecipe) + "comet: {api_key: hunter2}\n");
  EXPECT_FALSE(contains(comet.yaml + resolved_lines(comet.checked), "hunter2"));
  const RecipeFile file = small({"--dataset.allow_control_tokens=true"});
  EXPECT_TRUE(contains(file.yaml, "allow_control_tokens: true"));
  EXPECT_TRUE(contains(resolved_lines(file.checked), "dataset.allow_control_tokens: true"));
}

TEST(RecipeSecrets, InTheUserPartOfAUrlAreHidden) {
  const RecipeFile file =
      parse(std::string(kSmallRecipe) +
                "wandb: {base_url: \"https://me:hunter2@host/a@b\", other: see http://hunter2@h}\n",
            {"--dataset.path_or_dataset_id=https://hunter2@host/x"});
  for (const std::string& text :
       {io::to_json(resolved_keys(file.checked)), resolved_lines(file.checked), file.yaml,
        io::to_json(file.recipe.settings)}) {
    EXPECT_FALSE(contains(text, "hunter2")) << text;
    EXPECT_TRUE(contains(text, "https://********@host/a@b")) << text;
  }
  EXPECT_FALSE(contains(small_error({"--wandb.enable=http://u:hunter2@h"}), "hunter2"));
  EXPECT_EQ(without_userinfo("a@b http://h/x@y?u=http://h2"), "a@b http://h/x@y?u=http://h2");
}

TEST(RecipeSecrets, AreNotInErrorsAboutWhatStandsBesideThem) {
  const std::string colon = error_of(std::string(kSmallRecipe) + "wandb: {api_key:hunter2}\n");
  EXPECT_TRUE(contains(colon, "{api_key:********} is the key")) << colon;
  EXPECT_FALSE(contains(colon, "hunter2")) << colon;
  const std::string word = small_error({"--wandb.api_key", "first", "hunter2"});
  EXPECT_TRUE(contains(word, "argument ******** is neither a setting")) << word;
  EXPECT_FALSE(contains(small_error({"--wandb.api_key=first", "hunter2"}), "hunter2"));
  EXPECT_TRUE(contains(small_error({"--wandb.project=a", "b"}), "argument b is neither"));
}

}  // namespace
}  // namespace glmtune::train
