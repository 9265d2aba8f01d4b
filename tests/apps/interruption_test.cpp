// The program itself, stopped in the middle: killed at moments of its saves, by Ctrl-C, by a limit
// of file sizes. What it goes on with is what an undisturbed run has.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/cat.h"
#include "base/exit_code.h"
#include "io/files.h"
#include "support/crash.h"
#include "support/random_id_recipe.h"
#include "support/temp_folder.h"
#include "train/checkpoint_folder.h"

namespace glmtune::apps {
namespace {

namespace fs = std::filesystem;

// One checkpoint is kept.
std::string write_recipe(const TempFolder& temp, const std::string& out, int steps, int every) {
  const std::string path = temp / (out + ".yaml");
  std::ofstream(path) << yaml({.checkpoint_dir = temp / out,
                               .steps = steps,
                               .every = every,
                               .epochs = 100000,
                               .tokens = 12,
                               .warmup_steps = 1,
                               .checkpoint = "max_recent_checkpoints: 1, "});
  return path;
}

std::vector<std::string> program(const std::string& recipe) {
  return {GLMTUNE_BINARY, recipe};
}

int run(const std::string& recipe) {
  return test::run_program_and_crash({}, program(recipe)).status;
}

std::string final_state(const TempFolder& temp, const std::string& out) {
  return io::read_file(temp / (out + "/LATEST/state.safetensors"));
}

// The lines of the log without their timings.
std::vector<std::string> losses(const TempFolder& temp, const std::string& out,
                                const std::string& file = "training.jsonl") {
  std::ifstream in(temp / (out + "/" + file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find("\"loss\"");
    if (at != std::string::npos) lines.push_back(line.substr(at, line.find(',', at) - at));
  }
  return lines;
}

// Names, sizes and contents of a folder's files.
std::map<std::string, std::uint32_t> contents_of(const std::string& folder) {
  std::map<std::string, std::uint32_t> files;
  for (const auto& e : fs::directory_iterator(folder))
    files[e.path().string()] = io::file_checksum(e.path().string());
  return files;
}

TEST(Interruption, KilledAtMomentsOfItsSavesTheProgramGoesOnAsIfNothingHadHappened) {
  const TempFolder temp;
  const std::string model = std::string(GLMTUNE_FIXTURES) + "/golden/indexshare";
  const auto before = contents_of(model);
  const test::CrashResult whole =
      test::run_program_and_crash({.from = "epoch_"}, program(write_recipe(temp, "whole", 4, 2)));
  if (!whole.traced) GTEST_SKIP() << "this machine does not allow ptrace";
  ASSERT_EQ(whole.status, 0);
  ASSERT_GT(whole.changes, 100);
  const std::string state = final_state(temp, "whole");
  const std::vector<std::string> log = losses(temp, "whole");
  ASSERT_EQ(log.size(), 4U);
  constexpr int kMoments = 7;
  for (int i = 0; i < kMoments; ++i) {
    const std::string out = cat("killed_", i), recipe = write_recipe(temp, out, 4, 2);
    const test::CrashResult r = test::run_program_and_crash(
        {.at = whole.changes * i / kMoments, .from = "epoch_"}, program(recipe));
    ASSERT_TRUE(r.killed);
    SCOPED_TRACE(cat("killed before ", r.killed_before));
    ASSERT_EQ(run(recipe), 0);
    EXPECT_TRUE(final_state(temp, out) == state);
    EXPECT_EQ(losses(temp, out), log);
    if (i == 0) {  // no checkpoint yet: the second start begins again
      EXPECT_EQ(losses(temp, out, "training.jsonl.superseded").size(), 2U);
    }
    int folders = 0;
    for (const auto& e : fs::directory_iterator(temp / out))
      folders += e.is_directory() && !e.is_symlink() ? 1 : 0;
    EXPECT_EQ(folders, 1);  // the newest checkpoint; nothing that the killed process left
  }
  EXPECT_EQ(contents_of(model), before);  // the user's own folder is only read
}

// `inspect` prints the command that writes a checkpoint's Hugging Face folder; a shell runs it.
TEST(Interruption, TheCommandThatInspectPrintsWritesTheModel) {
  const TempFolder temp;
  const std::string folder = temp / "my runs/it's one";
  fs::create_directories(folder);
  std::string recipe =
      yaml({.checkpoint_dir = cat("\"", folder, "\""), .steps = 6, .every = 2, .tokens = 12});
  for (const auto& [text, by] : {std::pair("max_steps: 6", "max_steps: 6, start_step: 2"),
                                 {"cosine", "WSD, wsd_decay_steps: 3"}})
    recipe.replace(recipe.find(text), std::strlen(text), by);
  io::write_file(temp / "r.yaml", recipe);
  ASSERT_EQ(run(temp / "r.yaml"), 0);
  std::string step;
  for (const auto& e : fs::directory_iterator(folder))
    if (e.is_directory() && !e.is_symlink() && !fs::exists(e.path() / "model/consolidated"))
      step = e.path().string();
  ASSERT_NE(step, "");
  const pid_t inspect = ::fork();
  if (inspect == 0) {
    const int err = ::open((temp / "said").c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(err, STDERR_FILENO);
    ::execl(GLMTUNE_BINARY, GLMTUNE_BINARY, "inspect", step.c_str(), nullptr);
    ::_exit(99);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(inspect, &status, 0), inspect);
  std::string command = io::read_file(temp / "said");
  command.erase(0, command.find("\n  glmtune ") + 3);
  command.replace(0, std::strlen("glmtune"), GLMTUNE_BINARY);
  command.replace(command.find("OTHER"), 5, temp / "other");
  command.resize(command.find('\n'));
  EXPECT_EQ(std::system(cat(command, " >", temp / "out", " 2>&1").c_str()), 0)
      << command << "\n"
      << io::read_file(temp / "out");
  EXPECT_TRUE(fs::exists(temp / "other/LATEST/model/consolidated/model.safetensors"));
}

TEST(Interruption, ControlCEndsAtAStepWithAWholeCheckpoint) {
  const TempFolder temp;
  const std::string recipe = write_recipe(temp, "out", 1000000, 1000000);
  const pid_t process = ::fork();
  if (process == 0) {
    ::setenv("OMP_WAIT_POLICY", "passive", 1);
    (void)!::freopen("/dev/null", "w", stdout);
    (void)!::freopen("/dev/null", "w", stderr);
    ::execl(GLMTUNE_BINARY, GLMTUNE_BINARY, recipe.c_str(), nullptr);
    ::_exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  while (losses(temp, "out").size() < 3 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(process, SIGINT);
  int status = 0;
  ::waitpid(process, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), exit_status(ExitCode::kPreempted));
  const auto found = train::CheckpointFolder(temp / "out").resolve("", nullptr);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step + 1, static_cast<std::int64_t>(losses(temp, "out").size()));
}

TEST(Interruption, ALimitOfFileSizesIsOneClearLineAndStatusThree) {
  const TempFolder temp;
  const std::string recipe = write_recipe(temp, "out", 2, 2);
  const int status = std::system(cat("ulimit -f 8; exec ", GLMTUNE_BINARY, " ", recipe, " >",
                                     temp / "stdout", " 2>", temp / "stderr")
                                     .c_str());
  EXPECT_EQ(WEXITSTATUS(status), exit_status(ExitCode::kMachineError));
  const std::string said = io::read_file(temp / "stderr");
  EXPECT_NE(said.find("File too large"), std::string::npos) << said;
  EXPECT_EQ(losses(temp, "out").size(), 2U);
  for (const auto& e : fs::directory_iterator(temp / "out"))
    EXPECT_FALSE(e.is_directory()) << e.path();
}

// As with `glmtune recipe.yaml | tee log` when tee dies.
TEST(Interruption, AReaderOfTheOutputThatHasGoneDoesNotEndTheRun) {
  const TempFolder temp;
  const std::string recipe = write_recipe(temp, "out", 4, 2);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  const pid_t process = ::fork();
  if (process == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::execl(GLMTUNE_BINARY, GLMTUNE_BINARY, recipe.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  int status = 0;
  ::waitpid(process, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(losses(temp, "out").size(), 4U);
}

}  // namespace
}  // namespace glmtune::apps
