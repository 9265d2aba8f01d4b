// One run, one folder: what a run goes on from, what it refuses to write to, what it never removes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exit_code.h"
#include "io/files.h"
#include "train/folder_support.h"
#include "train/resume.h"
#include "train/run_lock.h"

namespace glmtune::train {
namespace {

class RunFolder : public FolderTrainer {
 protected:
  // Also for runs of two steps.
  std::string mock_recipe(const std::string& out, int steps, int every) const {
    return yaml({.checkpoint_dir = path(out), .steps = steps, .every = every, .warmup_steps = 1});
  }
  static std::string seeded(const std::string& recipe, int seed) {
    return with(recipe, "seed: 5", cat("seed: ", seed));
  }
  static std::string restored(const std::string& recipe, const std::string& from) {
    return with(recipe, "{enabled: true,", cat("{enabled: true, restore_from: ", from, ","));
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(RunFolder, AnotherSeedIsRefusedWithKeyAndValuesAndNothingIsTouched) {
  const std::string first = with(mock_recipe("out", 4, 4), "{enabled: true,",
                                 "{enabled: true, max_recent_checkpoints: 1,");
  ASSERT_EQ(train(first), 0);
  const std::string log_before = io::read_file(path("out/training.jsonl"));
  const std::string message = error_of(seeded(with(first, "max_steps: 4", "max_steps: 6"), 7));
  EXPECT_TRUE(has(message, "another run")) << message;
  EXPECT_TRUE(has(message, "seed is 5 there and 7 here")) << message;
  EXPECT_FALSE(has(message, "dataset")) << message;
  EXPECT_TRUE(has(message, "checkpoint.restore_from")) << message;
  EXPECT_EQ(step_folders("out"), std::vector<std::string>{"epoch_1_step_3"});
  EXPECT_EQ(io::read_file(path("out/training.jsonl")), log_before);
}

TEST_F(RunFolder, ARunWithoutCheckpointsIsRefusedWhereARunsCheckpointsAre) {
  const std::string recipe = mock_recipe("out", 4, 2);
  const std::string unsaved = with(recipe, "{enabled: true,", "{enabled: false,");
  ASSERT_EQ(train(unsaved), 0);
  ASSERT_EQ(train(unsaved), 0);  // beside its own log there is nothing to spoil
  ASSERT_EQ(train(recipe), 0);
  const std::string log_before = io::read_file(path("out/training.jsonl"));
  const std::string message = error_of(unsaved);
  EXPECT_TRUE(has(message, cat(path("out/epoch_1_step_3"), "), which a run with"))) << message;
  EXPECT_TRUE(has(message, "name another folder")) << message;
  EXPECT_EQ(io::read_file(path("out/training.jsonl")), log_before);
}

TEST_F(RunFolder, OtherDataAreRefusedByTheKeyThatDiffers) {
  ASSERT_EQ(train(mock_recipe("out", 2, 2)), 0);
  const std::string message =
      error_of(with(mock_recipe("out", 2, 2), "seq_len: 24", "seq_len: 20"));
  EXPECT_TRUE(has(message, "dataset.seq_len is 24 there and 20 here")) << message;
  const std::string order =
      error_of(with(mock_recipe("out", 2, 2), "shuffle: true", "shuffle: false"));
  EXPECT_TRUE(has(order, "dataloader.shuffle is true there and false here")) << order;
}

TEST_F(RunFolder, ADefaultThatIsWrittenOutIsTheSameRun) {
  const std::string shuffled = mock_recipe("out", 2, 2);
  const std::string written = with(shuffled, "shuffle: true", "shuffle: false");
  const std::string unwritten = with(shuffled, ", shuffle: true", "");  // false for mock data
  ASSERT_EQ(train(unwritten), 0);
  ASSERT_EQ(train(with(written, "max_steps: 2", "max_steps: 4")), 0);
  ASSERT_EQ(train(with(unwritten, "max_steps: 2", "max_steps: 6")), 0);
  EXPECT_EQ(log("out").back().find("step")->as_int(), 5);
  const std::string order = error_of(shuffled);
  EXPECT_TRUE(has(order, "dataloader.shuffle is false there and true here")) << order;
}

TEST_F(RunFolder, ADamagedPositionIsLeftOutAndNotTakenForAnotherRuns) {
  for (const char* seed : {"\"seed\": \"x\"", "\"seed\": \"6\""}) {
    fs::remove_all(path("out"));
    ASSERT_EQ(train(mock_recipe("out", 4, 2)), 0);
    const std::string state = path("out/LATEST/state.json");
    io::write_file(state, with(io::read_file(state), "\"seed\": \"5\"", seed));
    ASSERT_EQ(train(mock_recipe("out", 6, 6)), 0) << seed;
    EXPECT_EQ(CheckpointFolder(path("out")).published().back().step, 5);
  }
}

TEST_F(RunFolder, LatestGoesOnBesideAHigherStepOfAnotherSeed) {
  ASSERT_EQ(train(mock_recipe("out", 6, 3)), 0);  // steps 2 and 5 of seed 5
  // Insists on step 2 with another seed, whose checkpoint of step 3 is LATEST.
  const std::string other = seeded(mock_recipe("out", 4, 4), 6);
  ASSERT_EQ(train(restored(other, "epoch_1_step_2")), 0);
  const CheckpointFolder folder(path("out"));
  EXPECT_EQ(folder.resolve("", nullptr)->step, 3);
  EXPECT_EQ(folder.resolve("LATEST", nullptr)->step, 3);
  ASSERT_EQ(train(other), 0);  // nothing is left to do
  ASSERT_EQ(train(with(other, "max_steps: 4", "max_steps: 5")), 0);
  EXPECT_EQ(log("out").back().find("step")->as_int(), 4);
  // The command of the other seed finds its own newest one.
  ASSERT_EQ(train(mock_recipe("out", 7, 7)), 0);
  EXPECT_EQ(log("out").back().find("step")->as_int(), 6);
}

TEST_F(RunFolder, RetentionLeavesOtherRunsFoldersAlone) {
  ASSERT_EQ(train(mock_recipe("out", 2, 1)), 0);
  const std::string other = with(restored(seeded(mock_recipe("out", 6, 1), 6), "LATEST"),
                                 "{enabled: true,", "{enabled: true, max_recent_checkpoints: 1,");
  ASSERT_EQ(train(other), 0);
  EXPECT_EQ(step_folders("out"),
            (std::vector<std::string>{"epoch_0_step_0", "epoch_0_step_1", "epoch_2_step_5"}));
}

TEST_F(RunFolder, AFolderInWhichEveryCheckpointIsDamagedIsRefused) {
  ASSERT_EQ(train(mock_recipe("out", 2, 2)), 0);
  const std::string state = path("out/LATEST/state.safetensors");
  fs::resize_file(state, fs::file_size(state) - 1);
  const std::string message = error_of(mock_recipe("out", 3, 3));
  EXPECT_TRUE(has(message, "state.safetensors has")) << message;
  EXPECT_EQ(log("out").size(), 2U);
}

TEST_F(RunFolder, ASecondRunInTheSameFolderIsRefusedWithTheFirstOnesProcess) {
  const RunLock first(path("out"));
  const std::string message = error_of(mock_recipe("out", 2, 2));
  EXPECT_TRUE(has(message, "another run works in it")) << message;
  EXPECT_TRUE(has(message, cat("process ", ::getpid(), " on host "))) << message;
  EXPECT_FALSE(fs::exists(path("out/training.jsonl")));
}

TEST_F(RunFolder, TheLockEndsWithItsProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(path("out"));
    ::_exit(0);  // without unlocking
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(has(io::read_file(path("out/.lock")), cat("process ", child)));
  EXPECT_NO_THROW(const RunLock again(path("out")));
}

TEST_F(RunFolder, AFolderThatCannotBeUsedIsNamedBeforeDataAreRead) {
  std::ofstream(path("file")) << "not a folder";
  for (const std::string& folder : {path("file"), path("file/below"), std::string("/proc/out")}) {
    const std::string recipe = with(with(mock_recipe("x", 2, 2), path("x"), folder),
                                    "vocab_size: 320", "vocab_size: 99999");
    const std::string message = error_of(recipe);  // the data would be refused, too
    EXPECT_TRUE(has(message, cat("checkpoint.checkpoint_dir: ", folder))) << message;
  }
}

TEST_F(RunFolder, SettingsThatChangedAreNamedWithBothValues) {
  ASSERT_EQ(train(mock_recipe("out", 2, 2)), 0);
  const TrainingPosition saved = read_position(path("out/LATEST"));
  TrainingPosition now = saved;
  EXPECT_EQ(changed_settings(saved, now), "");
  now.settings.set("optimizer.lr", 5e-4);
  now.settings.set("optimizer.weight_decay", 0.5);
  now.settings.set("checkpoint.restore_from", "LATEST");
  const std::string changed = changed_settings(saved, now);
  EXPECT_TRUE(has(changed, "optimizer.lr 0.001 -> 0.0005")) << changed;
  EXPECT_TRUE(has(changed, "optimizer.weight_decay 0.01 -> 0.5") ||
              has(changed, "optimizer.weight_decay 0 -> 0.5") ||
              has(changed, "optimizer.weight_decay 0.0 -> 0.5"))
      << changed;
  EXPECT_FALSE(has(changed, "restore_from")) << changed;
  EXPECT_EQ(difference(saved, now), "");
}

TEST_F(RunFolder, TheHuggingFaceFolderOfAnyCheckpointIsWrittenByARunOfNoSteps) {
  std::atomic<int> stop{15};
  const std::string recipe = mock_recipe("out", 8, 100);
  ASSERT_EQ(train(recipe, &stop), exit_status(ExitCode::kPreempted));
  ASSERT_FALSE(fs::exists(path("out/epoch_0_step_0/model")));
  ASSERT_EQ(train(restored(
                with(with(recipe, "max_steps: 8", "max_steps: 0"), path("out"), path("export")),
                path("out/epoch_0_step_0"))),
            0);
  EXPECT_EQ(step_folders("export"), std::vector<std::string>{"epoch_0_step_0"});
  // The same step with an export at once.
  ASSERT_EQ(train(with(with(recipe, path("out"), path("every")), "{enabled: true,",
                       "{enabled: true, save_consolidated: every,"),
                  &stop),
            exit_status(ExitCode::kPreempted));
  const std::string file = "/epoch_0_step_0/model/consolidated/model.safetensors";
  EXPECT_TRUE(io::read_file(path("export" + file)) == io::read_file(path("every" + file)));
}

}  // namespace
}  // namespace glmtune::train
