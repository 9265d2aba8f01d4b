#include <gtest/gtest.h>

#include <cstdlib>

#include "apps/cli_support.h"

namespace glmtune::apps {
namespace {

TEST_F(CommandLine, InspectOfAStepFolderWithoutAModelSaysHowToGetIt) {
  write("config.yaml", "seed: 1\n");
  write("state.json",
        R"({"format": "glmtune training state 1", "next_step": 6, "updates": 6, "epoch": 0,
            "next_pack": 48, "seed": "1", "data_fingerprint": "a", "model_signature": "b",
            "lowest_val_loss": null})");
  const Outcome without = glmtune({"inspect", folder_.string()});
  EXPECT_EQ(without.status, 1);
  for (const std::string& part :
       {std::string("after 6 steps"), std::string("checkpoint.save_consolidated"),
        cat("glmtune ", folder_.string(), "/config.yaml --checkpoint.restore_from ",
            folder_.string())})
    EXPECT_TRUE(contains(without.err, part)) << without.err;
  fs::create_directories(folder_ / "model");
  fs::copy(cat(GLMTUNE_FIXTURES, "/golden/indexshare"), folder_ / "model/consolidated");
  const Outcome with = glmtune({"inspect", folder_.string()});
  EXPECT_EQ(with.status, 0) << with.err;
  EXPECT_TRUE(contains(with.out, "model/consolidated")) << with.out;
}

TEST_F(CommandLine, EveryCommandHasHelpWithAnExample) {
  for (const char* command : {"check", "preview", "verify", "inspect", "init"}) {
    const Outcome outcome = glmtune({command, "--help"});
    EXPECT_EQ(outcome.status, 0) << command;
    EXPECT_TRUE(contains(outcome.out, "Example:\n  glmtune ")) << command;
  }
  EXPECT_TRUE(contains(glmtune({"recipe.yaml", "--help"}).out, "Example:\n  glmtune "));
  EXPECT_TRUE(contains(glmtune({"--help"}).out, "glmtune check RECIPE.yaml"));
  EXPECT_EQ(glmtune({"--version"}).status, 0);
}

TEST_F(CommandLine, NothingToDoIsAnErrorWithTheOverview) {
  const Outcome outcome = glmtune({});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, "glmtune RECIPE.yaml"));
}

TEST_F(CommandLine, UsersErrorsAreOneStatusAndOneLine) {
  const struct {
    std::vector<std::string> words;
    const char* part;
  } cases[] = {
      {{"/no/such.yaml"}, "/no/such.yaml: no such file"},
      {{"check", "/no/such.yaml"}, "no such file"},
      {{"preview", "/no/such.yaml"}, "no such file"},
      {{"check"}, "no recipe"},
      {{"check", "r.yaml", "--world-size", "x"}, "--world-size"},
      {{"check", "r.yaml", "--world-size", "0"},
       "--world-size: expected a whole number, 1 to 1048576, found 0"},
      {{"check", "r.yaml", "--world-size", "9223372036854775807"}, "--world-size"},
      {{"preview", "r.yaml", "--rows", "-1"},
       "--rows: expected a whole number, 1 or more, found -1"},
      {{"verify", "--model", "x", "--reference", "y", "--tolerance", "0"},
       "--tolerance: expected a number above 0, found 0"},
      {{"init", "config.json", ""}, "OUT is empty"},
      {{"verify"}, "--model is required"},
      {{"verify", "--model", "x", "--reference", "y", "--dtype", "int8"}, "--dtype int8"},
      {{"verify", "--model", "x", "--reference", "y", "--ep", "2"}, "several ranks"},
      {{"verify", "--model", "x", "--reference", "y", "--device", "tpu"}, "--device"},
      {{"inspect", "/no/such"}, "/no/such"},
      {{"inspect"}, "PATH is required"},
      {{"init", "/no/config.json", "/tmp/x"}, "/no/config.json"},
      {{"init", "x"}, "OUT is required"},
      {{"plan"}, "does not exist yet"},
      {{"checkk", "r.yaml"}, "no command checkk; nearest: check"},
      {{"train", "r.yaml"}, "training needs no word before the recipe"},
      {{"check"}, "glmtune check RECIPE.yaml"},
      {{"check", "r.yaml", "--rows", "3"}, "--rows is an option of `glmtune preview`"},
      {{"r.yaml", "optimizer.lr=1e-5"}, "settings begin with two dashes: --optimizer.lr=1e-5"},
      {{"r.yaml", "-optimizer.lr=1e-5"}, "settings begin with two dashes: --optimizer.lr=1e-5"},
      {{"r.yaml", "other.yaml"}, "two recipes: r.yaml and other.yaml"},
      {{"r.yaml", "--seed", "1", "stray"}, "argument stray is neither a setting"}};
  for (const auto& c : cases) {
    const Outcome outcome = glmtune(c.words);
    EXPECT_EQ(outcome.status, 1) << c.part;
    EXPECT_TRUE(outcome.err.starts_with("glmtune: error: ")) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, c.part)) << outcome.err;
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  }
}

TEST_F(CommandLine, DataOfTheHubAreLookedUpInTheLocalCache) {
  ::setenv("HF_HUB_CACHE", folder_.c_str(), 1);
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  const Outcome outcome = glmtune({recipe(), "--dataset.path_or_dataset_id=nobody/chats"});
  ::unsetenv("HF_HUB_CACHE");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, "argument --dataset.path_or_dataset_id: ")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, folder_.string())) << outcome.err;
}

TEST_F(CommandLine, ARunRefusesWhatDoesNotRunYet) {
  const Outcome outcome = glmtune({recipe(), "--distributed.ep_size=8", "--peft.dim=4"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, "not runnable yet: ")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "distributed.ep_size 8"));
  EXPECT_TRUE(contains(outcome.err, "peft"));
  const Outcome ranks = glmtune({recipe(), "--nproc-per-node", "8"});
  EXPECT_EQ(ranks.status, 1);
  EXPECT_TRUE(contains(ranks.err, "--nproc-per-node 8: several ranks do not run yet"));
}

TEST_F(CommandLine, ASettingWithoutItsValueIsSaidToLackIt) {
  for (const char* setting : {"--optimizer.lr", "--dataset.split", "--seed"}) {
    const Outcome outcome = glmtune({"check", recipe(), setting});
    EXPECT_EQ(outcome.status, 1) << setting;
    EXPECT_TRUE(contains(outcome.err, cat("argument ", setting, ": a value is missing")))
        << outcome.err;
  }
}

TEST_F(CommandLine, AMisspeltSectionIsOneError) {
  const std::string path = write("misspelt.yaml",
                                 "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
                                 "model: {pretrained_model_name_or_path: m}\n"
                                 "dataset: {_target_: nemo_automodel.components.datasets.llm."
                                 "chat_dataset.ChatDataset, path_or_dataset_id: c.jsonl}\n"
                                 "optimzer: {_target_: torch.optim.AdamW}\n");
  const Outcome outcome = glmtune({"check", path});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, "unknown key optimzer; nearest: optimizer")) << outcome.err;
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
}

TEST_F(CommandLine, VerifyNamesTheEpsOfTransformersWhereItWouldHelp) {
  const std::string folder = GLMTUNE_FIXTURES "/golden/packed";
  const std::vector<std::string> words{"verify", "--model", folder, "--reference",
                                       folder + "/golden.safetensors"};
  const Outcome outcome = glmtune(words);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, "add --latent-norm-eps 1e-6")) << outcome.err;
  std::vector<std::string> right = words;
  right.insert(right.end(), {"--latent-norm-eps", "1e-6"});
  const Outcome agreed = glmtune(right);
  EXPECT_EQ(agreed.status, 0) << agreed.out;
  EXPECT_EQ(agreed.err, "");
}

TEST_F(CommandLine, HelpOffersNothingThatNeverRuns) {
  const std::string verify = glmtune({"verify", "--help"}).out;
  for (const char* option : {"--ep", "--cp", "--nproc-per-node"})
    EXPECT_FALSE(contains(verify, option)) << option;
  const std::string overview = glmtune({"--help"}).out;
  for (const char* word : {"--version", "--nproc-per-node", "docs-recipe"})
    EXPECT_TRUE(contains(overview, word)) << word;
  EXPECT_LT(glmtune({"docs-recipe", "--help"}).out.size(), 1000u);
}

TEST_F(CommandLine, DocsRecipePrintsTheDocumentation) {
  const Outcome outcome = glmtune({"docs-recipe"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.out.starts_with("# The recipe language"));
}

}  // namespace
}  // namespace glmtune::apps
