// What the program does where its output cannot be written, its input never comes, or it may not
// start as many threads as it is told to.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "apps/cli_support.h"
#include "base/exit_code.h"
#include "io/files.h"
#include "support/temp_folder.h"

namespace glmtune::apps {
namespace {

class Streams : public ::testing::Test {
 protected:
  // The exit status of `glmtune WORDS`; the message is in `said_`.
  int status_of(const std::string& words, const std::string& before = "") {
    const int status = std::system(
        cat(before, " timeout 60 ", GLMTUNE_BINARY, " ", words, " 2>", temp_ / "err").c_str());
    said_ = io::read_file(temp_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  TempFolder temp_;
  std::string said_;
};

TEST_F(Streams, OutputThatIsLostIsAnError) {
  const std::string model = cat(GLMTUNE_FIXTURES, "/golden/packed");
  for (const std::string& words :
       {std::string("docs-recipe"), cat("inspect ", model), cat("inspect ", model, " --json"),
        cat("verify --model ", model, " --latent-norm-eps 1e-6 --reference ", model,
            "/golden.safetensors")})
    for (const char* to : {" >/dev/full", " >&-"}) {
      EXPECT_EQ(status_of(words + to), exit_status(ExitCode::kMachineError)) << words << to;
      EXPECT_TRUE(contains(said_, "standard output could not be written")) << said_;
    }
  EXPECT_EQ(status_of("docs-recipe >/dev/null"), 0) << said_;
  EXPECT_EQ(said_, "");
}

// `glmtune docs-recipe | head -1` means it.
TEST_F(Streams, AReaderThatHasReadEnoughIsNoErrorToReport) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);  // the reader has gone before anything is written
  const pid_t process = ::fork();
  if (process == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    const int err = ::open((temp_ / "err").c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(err, STDERR_FILENO);
    ::execl(GLMTUNE_BINARY, GLMTUNE_BINARY, "docs-recipe", nullptr);
    ::_exit(99);
  }
  ::close(ends[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), exit_status(ExitCode::kMachineError));
  EXPECT_EQ(io::read_file(temp_ / "err"), "");
}

// The usual limit of 1024 descriptors; files of a data set stay open.
TEST_F(Streams, MoreFilesOfADataSetThanTheUsualLimitAllows) {
  fs::create_directories(temp_ / "rows");
  for (int i = 0; i < 100; ++i) std::ofstream(temp_ / cat("rows/", i, ".jsonl")) << kChat;
  io::write_file(temp_ / "r.yaml",
                 cat("recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
                     "model: {pretrained_model_name_or_path: zai-org/GLM-5.2}\n"
                     "dataset:\n"
                     "  _target_: nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset\n"
                     "  path_or_dataset_id: ",
                     temp_ / "rows", "\noptimizer: {_target_: torch.optim.AdamW, lr: 1e-5}\n"));
  EXPECT_EQ(status_of(cat("check ", temp_ / "r.yaml", " >", temp_ / "out"), "ulimit -S -n 64;"), 0)
      << said_;
  EXPECT_TRUE(contains(io::read_file(temp_ / "out"), "100 rows")) << io::read_file(temp_ / "out");
}

TEST_F(Streams, APipeInPlaceOfAFileIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo((temp_ / "r.yaml").c_str(), 0600), 0);
  EXPECT_EQ(status_of(cat("check ", temp_ / "r.yaml")), exit_status(ExitCode::kUserError));
  EXPECT_TRUE(contains(said_, "r.yaml: is not a regular file")) << said_;
  fs::create_symlink("loop.yaml", temp_ / "loop.yaml");
  EXPECT_EQ(status_of(cat("check ", temp_ / "loop.yaml")), exit_status(ExitCode::kUserError));
  EXPECT_TRUE(contains(said_, "leads back to itself")) << said_;
}

TEST_F(Streams, ControlCharactersInAMessageAreShownNotSent) {
  io::write_file(temp_ / "r.yaml", "\"\\e[31mred\": 1\n");
  EXPECT_EQ(status_of(cat("check ", temp_ / "r.yaml")), exit_status(ExitCode::kUserError));
  EXPECT_TRUE(contains(said_, "unknown key \\x1b[31mred")) << said_;
}

TEST_F(Streams, MoreThreadsThanCanBeAreRefused) {
  EXPECT_EQ(status_of("docs-recipe", "OMP_NUM_THREADS=100000"), exit_status(ExitCode::kUserError));
  EXPECT_TRUE(contains(said_, "OMP_NUM_THREADS is 100000; expected a number up to 4096")) << said_;
}

TEST_F(Streams, ASeedOfInitIsAsARecipes) {
  const std::string config = cat(GLMTUNE_FIXTURES, "/golden/packed/config.json");
  for (const char* seed : {"18446744073709551616", "-1", "x"}) {
    const Outcome outcome = glmtune({"init", config, temp_ / "out", cat("--seed=", seed)});
    EXPECT_EQ(outcome.status, 1) << seed;
    EXPECT_TRUE(contains(outcome.err, "expected a whole number, 0 to 9223372036854775807"))
        << outcome.err;
  }
}

}  // namespace
}  // namespace glmtune::apps
