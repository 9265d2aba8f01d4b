#include "apps/command_line.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/cat.h"
#include "io/json.h"

namespace glmtune::apps {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int status = 0;
  std::string out, err;
};

Outcome glmtune(const std::vector<std::string>& words) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = run_command_line(words);
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class CommandLine : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / cat("glmtune_cli_", test->name(), "_", ::getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::string recipe() const {
    return write(
        "r.yaml",
        cat("recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
            "model: {pretrained_model_name_or_path: zai-org/GLM-5.2}\n"
            "dataset:\n"
            "  _target_: nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset\n"
            "  path_or_dataset_id: ",
            write("chat.jsonl", "{}\n"), "\noptimizer: {_target_: torch.optim.AdamW, lr: 1e-5}\n"));
  }

  fs::path folder_;
};

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
  } cases[] = {{{"/no/such.yaml"}, "/no/such.yaml: no such file"},
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
               {{"plan"}, "does not exist yet"}};
  for (const auto& c : cases) {
    const Outcome outcome = glmtune(c.words);
    EXPECT_EQ(outcome.status, 1) << c.part;
    EXPECT_TRUE(outcome.err.starts_with("glmtune: error: ")) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, c.part)) << outcome.err;
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  }
}

TEST_F(CommandLine, CheckPrintsWhatARunWouldNeed) {
  const Outcome outcome = glmtune({"check", recipe(), "--optimizer.lr=2e-5"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "743,377,019,904 parameters"));
  EXPECT_TRUE(contains(outcome.out, "optimizer.lr: 2e-05"));
  EXPECT_TRUE(contains(outcome.out, "dataset: ChatDataset"));
  EXPECT_TRUE(contains(outcome.out, "everything in this recipe runs"));
}

TEST_F(CommandLine, CheckOfSizesThatNoMemoryHoldsLeavesTheMemoryOut) {
  for (const char* setting :
       {"--packed_sequence.packed_sequence_size=99999999999999", "--model.torch_dtype=float16"}) {
    const Outcome outcome = glmtune({"check", recipe(), setting});
    EXPECT_EQ(outcome.status, 0) << setting << outcome.err;
  }
  const Outcome none = glmtune({"check", recipe(), "--dataset.path_or_dataset_id=[]"});
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(contains(none.err, "dataset: no path is given")) << none.err;
}

TEST_F(CommandLine, CheckPrintsOneJsonObjectOfDottedKeys) {
  const Outcome outcome = glmtune({"check", recipe(), "--json", "--distributed.ep_size=8"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const io::Value json = io::parse_json(outcome.out, "stdout");
  EXPECT_EQ(json.find("optimizer.lr")->as_double(), 1e-5);
  EXPECT_EQ(json.find("distributed.ep_size")->as_int(), 8);
  EXPECT_EQ(json.find("check.not_runnable")->as_array().at(0).as_string(), "distributed.ep_size 8");
  EXPECT_EQ(json.find("check.mesh.experts_per_rank")->as_int(), 32);
}

TEST_F(CommandLine, CheckNamesConflictsOfAGivenWorld) {
  const Outcome outcome = glmtune({"check", recipe(), "--world-size", "3"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, "global_batch_size 32 is no multiple")) << outcome.err;
}

TEST_F(CommandLine, CheckNamesDataAndModelsThatAreNotThere) {
  const Outcome data = glmtune({"check", recipe(), "--dataset.path_or_dataset_id=/no/chat.jsonl"});
  EXPECT_EQ(data.status, 1);
  EXPECT_TRUE(contains(data.err, "dataset: /no/chat.jsonl: no such file or folder"));
  const std::string key = "--model.pretrained_model_name_or_path=";
  const Outcome model = glmtune({"check", recipe(), key + "/no/model"});
  EXPECT_EQ(model.status, 1);
  EXPECT_TRUE(
      contains(model.err, "model.pretrained_model_name_or_path: /no/model: no such folder"));
  // user_reports 83
  const Outcome other = glmtune({"check", recipe(), key + "zai-org/GLM-5.3-Flash"});
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(contains(other.err, "glm5_next"));
  const Outcome elsewhere = glmtune({"check", recipe(), key + "nobody/nothing"});
  EXPECT_EQ(elsewhere.status, 0);
  EXPECT_TRUE(contains(elsewhere.out, "not on this machine"));
}

TEST_F(CommandLine, DataOfTheHubAreLookedUpInTheLocalCache) {
  ::setenv("HF_HUB_CACHE", folder_.c_str(), 1);
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  const Outcome outcome = glmtune({recipe(), "--dataset.path_or_dataset_id=nobody/chats"});
  ::unsetenv("HF_HUB_CACHE");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, "dataset: ")) << outcome.err;
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

TEST_F(CommandLine, CheckAcceptsEveryPublishedRecipe) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(cat(shared, "/recipes"))) {
    if (entry.path().extension() != ".yaml") continue;
    const Outcome outcome = glmtune({"check", entry.path().string(), "--json"});
    EXPECT_EQ(outcome.status, 0) << entry.path() << outcome.err;
    const io::Value json = io::parse_json(outcome.out, "stdout");
    EXPECT_EQ(json.find("check.conflicts")->size(), 0u) << entry.path();
    EXPECT_GT(json.find("check.not_runnable")->size(), 0u) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 11);
}

// AutoModel's page prints GLM-5.3's recipe without pp_size.
TEST_F(CommandLine, ThePagesVariantChecksButFailsOn256Ranks) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  const std::string path = cat(shared, "/recipes/glm_5.3_tulu3_4k_cudnn_100step.yaml");
  EXPECT_EQ(glmtune({"check", path, "--distributed.pp_size=null"}).status, 0);
  const Outcome outcome =
      glmtune({"check", path, "--distributed.pp_size=null", "--world-size=256"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err,
                       "nearest: global_batch_size 1024; or step_scheduler.local_batch_size 1; or "
                       "distributed.pp_size 4"))
      << outcome.err;
}

TEST_F(CommandLine, DocsRecipePrintsTheDocumentation) {
  const Outcome outcome = glmtune({"docs-recipe"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.out.starts_with("# The recipe language"));
}

}  // namespace
}  // namespace glmtune::apps
