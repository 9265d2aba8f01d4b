// The program itself, stopped in the middle: killed at moments of its saves, by Ctrl-C, by a limit
// of file sizes. What it goes on with is what an undisturbed run has.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/cat.h"
#include "base/exit_code.h"
#include "io/files.h"
#include "support/crash.h"
#include "support/temp_folder.h"
#include "train/checkpoint_folder.h"

namespace glmtune::apps {
namespace {

namespace fs = std::filesystem;

// Random ids in epochs of seven packs, four packs a step, a save after every second step.
std::string write_recipe(const TempFolder& temp, const std::string& out, int steps, int every) {
  const std::string path = temp / (out + ".yaml");
  std::ofstream(path) << cat(R"(
recipe: TrainFinetuneRecipeForNextTokenPrediction
seed: 5
step_scheduler: {global_batch_size: 4, local_batch_size: 2, max_steps: )",
                             steps, ", num_epochs: 100000, ckpt_every_steps: ", every,
                             R"(, save_checkpoint_every_epoch: false}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: )",
                             GLMTUNE_FIXTURES, R"(/golden/indexshare
  torch_dtype: float32
dataset: {_target_: nemo_automodel.components.datasets.llm.mock_iterable_dataset.MockIterableDataset, vocab_size: 320, seq_len: 12, num_samples: 7}
dataloader: {_target_: torchdata.stateful_dataloader.StatefulDataLoader, shuffle: true}
optimizer: {_target_: torch.optim.AdamW, lr: 1e-3}
checkpoint: {enabled: true, max_recent_checkpoints: 1, checkpoint_dir: )",
                             temp / out, "}\n");
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
std::vector<std::string> losses(const TempFolder& temp, const std::string& out) {
  std::ifstream in(temp / (out + "/training.jsonl"));
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
    // A run that had no checkpoint yet begins again, and its log goes on below the first attempt's.
    const std::vector<std::string> lines = losses(temp, out);
    ASSERT_GE(lines.size(), log.size());
    EXPECT_EQ(std::vector<std::string>(lines.end() - 4, lines.end()), log);
    int folders = 0;
    for (const auto& e : fs::directory_iterator(temp / out))
      folders += e.is_directory() && !e.is_symlink() ? 1 : 0;
    EXPECT_EQ(folders, 1);  // the newest checkpoint; nothing that the killed process left
  }
  EXPECT_EQ(contents_of(model), before);  // the user's own folder is only read
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

}  // namespace
}  // namespace glmtune::apps
