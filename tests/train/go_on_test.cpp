// A run that ended before its end: where it goes on, what is in its way, with another batch size.
#include "base/exit_code.h"
#include "train/folder_support.h"
#include "train/resume.h"
#include "train/run_inputs.h"
#include "train/training_state.h"

namespace glmtune::train {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class GoOn : public FolderTrainer {
 protected:
  static constexpr int kPreempted = exit_status(ExitCode::kPreempted);

  static std::string restored(const std::string& recipe, const std::string& from) {
    return with(recipe, "{enabled: true,", cat("{enabled: true, restore_from: ", from, ","));
  }
  // What a run that a signal ends after its first step says.
  std::string said_by_stopped(const std::string& recipe) {
    const std::atomic<int> stop{15};
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    int status = 0;
    std::string error;
    try {
      status = train(recipe, &stop);
    } catch (const Error& e) {
      error = e.what();
    }
    std::string said =
        testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr() + error;
    EXPECT_EQ(status, kPreempted) << said;
    return said;
  }
  // Two epochs of seven packs.
  std::string two_epochs(const std::string& out, int batch, int steps, int warmup = 1) const {
    return with(yaml({.checkpoint_dir = path(out),
                      .steps = steps,
                      .every = 1000,
                      .epochs = 2,
                      .warmup_steps = warmup}),
                "global_batch_size: 4, local_batch_size: 2",
                cat("global_batch_size: ", batch, ", local_batch_size: 1"));
  }
  std::vector<std::int64_t> numbers(const std::string& out, const char* key) const {
    std::vector<std::int64_t> found;
    for (const io::Value& line : log(out)) found.push_back(line.find(key)->as_int());
    return found;
  }
  using List = std::vector<std::int64_t>;
};

TEST_F(GoOn, AStopStepsPastAFolderThatIsInItsWay) {
  ASSERT_EQ(train(mock_recipe("out", 5, 4)), 0);  // steps 3 and 4
  const std::string said =
      said_by_stopped(restored(mock_recipe("out", 20, 3999), "epoch_1_step_3"));
  EXPECT_TRUE(has(said, "epoch_2_step_4 exists, so the run ends a step later")) << said;
  EXPECT_EQ(step_folders("out"),
            (std::vector<std::string>{"epoch_1_step_3", "epoch_2_step_4", "epoch_2_step_5"}));
  EXPECT_EQ(read_position(path("out/LATEST")).next_step, 6);
}

TEST_F(GoOn, AStopStepsPastAnyNumberOfFolders) {
  ASSERT_EQ(train(mock_recipe("out", 6, 1)), 0);  // steps 0 to 5
  said_by_stopped(restored(mock_recipe("out", 20, 3999), "epoch_1_step_3"));
  EXPECT_EQ(read_position(path("out/LATEST")).next_step, 7);
}

// A scheduler of jobs starts the same command again.
TEST_F(GoOn, TheCheckpointThatACommandNamesIsNotRemoved) {
  ASSERT_EQ(train(mock_recipe("out", 4, 4)), 0);
  const std::string named = with(restored(mock_recipe("out", 20, 3999), "epoch_1_step_3"),
                                 "{enabled: true,", "{enabled: true, max_recent_checkpoints: 1,");
  said_by_stopped(named);
  EXPECT_EQ(step_folders("out"), (std::vector<std::string>{"epoch_1_step_3", "epoch_2_step_4"}));
  said_by_stopped(named);
  EXPECT_EQ(step_folders("out"), (std::vector<std::string>{"epoch_1_step_3", "epoch_2_step_5"}));
}

TEST_F(GoOn, ADamagedCheckpointTakesNoWholeOnesPlace) {
  ASSERT_EQ(train(mock_recipe("out", 4, 1)), 0);  // steps 0 to 3
  for (const char* step : {"epoch_0_step_0", "epoch_0_step_1"})
    fs::remove_all(path("out") / fs::path(step));
  const std::string state = path("out/epoch_1_step_3/state.safetensors");
  std::string text = bytes(state);
  text.back() = static_cast<char>(text.back() ^ 1);
  io::write_file(state, text);
  const std::string two = with(mock_recipe("out", 6, 3999), "{enabled: true,",
                               "{enabled: true, max_recent_checkpoints: 2,");
  ASSERT_EQ(error_of(two), "");
  EXPECT_EQ(step_folders("out"),
            (std::vector<std::string>{"epoch_1_step_2", "epoch_1_step_3", "epoch_2_step_5"}));
}

// recipes.md 2.5: incomplete targets are rejected or skipped, and said.
TEST_F(GoOn, AnIncompleteCheckpointThatIsNamedIsRefusedAndStaysThere) {
  ASSERT_EQ(train(mock_recipe("out", 4, 2)), 0);  // steps 1 and 3
  std::ofstream(path("out/epoch_1_step_3/.incomplete")).close();
  const std::string plain = mock_recipe("out", 6, 2);
  EXPECT_TRUE(has(error_of(restored(plain, "epoch_1_step_3")),
                  "epoch_1_step_3 is incomplete (its save was interrupted)"));
  EXPECT_TRUE(fs::exists(path("out/epoch_1_step_3/state.json")));
  testing::internal::CaptureStderr();
  EXPECT_EQ(error_of(plain), "");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said,
                  "LATEST names epoch_1_step_3, which is incomplete (its save was "
                  "interrupted) and is left out"))
      << said;
}

TEST_F(GoOn, ARateThatChangesOnResumeIsWarnedOf) {
  ASSERT_EQ(train(mock_recipe("out", 4, 2)), 0);
  testing::internal::CaptureStderr();
  ASSERT_EQ(train(with(mock_recipe("out", 6, 2), "lr: 1e-3", "lr: 2e-3")), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, "the learning rate is this recipe's from step 4 on")) << said;
}

// The schedule depends on the number of steps, which no key of the rates names.
TEST_F(GoOn, ARateThatJumpsWithTheNumberOfStepsIsWarnedOf) {
  const auto said_by = [&](const std::string& recipe) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(error_of(recipe), "");
    return testing::internal::GetCapturedStderr();
  };
  constexpr const char* kJump = "the learning rate of step 4 would have been 1e-05 in the run";
  ASSERT_EQ(train(mock_recipe("out", 4, 2)), 0);
  const std::string longer = said_by(mock_recipe("out", 12, 2));
  EXPECT_TRUE(has(longer, kJump)) << longer;

  said_by_stopped(two_epochs("batch", 2, 1000));
  const std::string same = said_by_stopped(two_epochs("batch", 2, 1000));
  EXPECT_FALSE(has(same, "would have been")) << same;
  const std::string other = said_by(two_epochs("batch", 1, 1000));
  EXPECT_TRUE(has(other, "the learning rate of step 2 would have been ")) << other;
}

TEST_F(GoOn, LatestOfDamagedCheckpointsOnlyIsAnErrorThatMovesNothing) {
  ASSERT_EQ(train(mock_recipe("out", 4, 2)), 0);  // steps 1 and 3
  for (const char* step : {"epoch_0_step_1", "epoch_1_step_3"}) {
    const std::string state = path(cat("out/", step, "/state.safetensors"));
    std::string text = bytes(state);
    text.back() = static_cast<char>(text.back() ^ 1);
    io::write_file(state, text);
  }
  const std::string before = bytes(path("out/training.jsonl"));
  const std::string message = error_of(restored(mock_recipe("out", 6, 1000), "LATEST"));
  EXPECT_TRUE(has(message, cat("no checkpoint in ", path("out"), " is whole"))) << message;
  EXPECT_EQ(bytes(path("out/training.jsonl")), before);
  EXPECT_EQ(step_folders("out"), (std::vector<std::string>{"epoch_0_step_1", "epoch_1_step_3"}));
  for (const auto& entry : fs::directory_iterator(path("out")))
    EXPECT_FALSE(has(entry.path().filename().string(), "superseded")) << entry.path();
}

TEST_F(GoOn, AWrongRestoreFromIsFoundBeforeTheDataAreRead) {
  const std::string recipe =
      with(restored(mock_recipe("out", 4, 2), "epoch_0_step_77"), kGolden, path("no_model"));
  EXPECT_TRUE(has(error_of(recipe), "epoch_0_step_77")) << error_of(recipe);
}

TEST_F(GoOn, AnotherDayIsNamedWhereTheTemplateMayWriteIt) {
  TrainingPosition saved, now;
  saved.data_fingerprint = "a";
  now.data_fingerprint = "b";
  EXPECT_FALSE(has(difference(saved, now), "strftime_now"));
  saved.template_sha256 = now.template_sha256 = "0123456789abcdef";
  EXPECT_TRUE(has(difference(saved, now), "dataset.chat_template_kwargs.strftime_now"));
}

TEST_F(GoOn, ALinkInASavesWayIsNamedBeforeTraining) {
  fs::create_directories(path("elsewhere"));
  std::ofstream(path("elsewhere/file")) << "kept";
  fs::create_directories(path("out"));
  for (const char* target : {"elsewhere", "nowhere"}) {
    fs::remove(path("out/epoch_1_step_3"));
    fs::create_directory_symlink(path(target), path("out/epoch_1_step_3"));
    const std::string message = error_of(mock_recipe("out", 4, 1000));
    EXPECT_TRUE(has(message, "epoch_1_step_3")) << message;
    EXPECT_TRUE(has(message, "would save step 3 there")) << message;
    EXPECT_FALSE(fs::exists(path("out/training.jsonl")));
  }
}

TEST_F(GoOn, ADamagedCheckpointInASavesWayIsCalledThat) {
  ASSERT_EQ(train(mock_recipe("out", 4, 2)), 0);  // steps 1 and 3
  const std::string state = path("out/epoch_1_step_3/state.safetensors");
  std::string text = bytes(state);
  text.back() = static_cast<char>(text.back() ^ 1);
  io::write_file(state, text);
  const std::string message = error_of(mock_recipe("out", 6, 2));
  EXPECT_TRUE(has(message, cat(path("out/epoch_1_step_3"),
                               ": it is the damaged checkpoint that is left out, and this run, "
                               "which would go on from step 2, would save step 3 there; mend it, "
                               "move it elsewhere")))
      << message;
  fs::rename(path("out/epoch_1_step_3"), path("elsewhere"));
  EXPECT_EQ(error_of(mock_recipe("out", 6, 2)), "");
}

TEST_F(GoOn, WhatARunWithoutStepsSavedIsCalledThatWhereItIsInTheWay) {
  ASSERT_EQ(train(with(mock_recipe("out", 1, 1), "max_steps: 1", "max_steps: 0")), 0);
  const std::string message = error_of(mock_recipe("out", 3, 1));
  EXPECT_TRUE(has(message, cat(path("out/epoch_0_step_0"),
                               " holds the model before the first step, which a run with "
                               "step_scheduler.max_steps 0 saved, and this run would save step 0 "
                               "there; name another checkpoint.checkpoint_dir")))
      << message;
  EXPECT_FALSE(fs::exists(path("out/training.jsonl")));
  const std::string said = said_by_stopped(mock_recipe("out", 5, 4));
  EXPECT_TRUE(has(said, "epoch_0_step_0 exists, so the run ends a step later")) << said;
  EXPECT_EQ(read_position(path("out/LATEST")).next_step, 2);
}

TEST_F(GoOn, ARunThatNamesACheckpointIsToldToLeaveThatOutWhenItGoesOn) {
  ASSERT_EQ(train(mock_recipe("out", 4, 2)), 0);  // steps 1 and 3
  const std::string plain = mock_recipe("out", 20, 3999);
  const std::string named = restored(plain, "epoch_0_step_1");
  const std::string first = said_by_stopped(named);
  EXPECT_TRUE(has(first, cat(path("out/epoch_1_step_3"), ", after 4, is left aside"))) << first;
  EXPECT_TRUE(has(first,
                  "the same command without checkpoint.restore_from goes on from there "
                  "(with it, it begins at epoch_0_step_1 again)"))
      << first;
  const std::string second = said_by_stopped(plain);
  EXPECT_FALSE(has(second, "is left aside")) << second;
  EXPECT_TRUE(has(second, "a checkpoint is written, the same command goes on from there"))
      << second;
  EXPECT_EQ(read_position(path("out/LATEST")).next_step, 5);  // past step 3 of the first run
}

TEST_F(GoOn, ACheckpointOfAnotherFolderIsNamedOnlyUntilTheRunHasItsOwn) {
  ASSERT_EQ(train(mock_recipe("first", 4, 4)), 0);
  const std::string named = restored(mock_recipe("second", 20, 3999), path("first/LATEST"));
  const std::string first = said_by_stopped(named);
  EXPECT_FALSE(has(first, "is left aside")) << first;
  EXPECT_TRUE(has(first, "without checkpoint.restore_from")) << first;
  const std::string again = said_by_stopped(named);
  EXPECT_TRUE(has(again, cat(path("second/epoch_2_step_4"), ", after 5, is left aside"))) << again;
}

TEST_F(GoOn, SmallerBatchesEndWithTheEpochsOfTheData) {
  ASSERT_EQ(train(two_epochs("out", 2, 3)), 0);  // six of the seven packs
  ASSERT_EQ(train(two_epochs("out", 1, 1000)), 0);
  EXPECT_EQ(numbers("out", "epoch"), (List{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(step_folders("out").back(), "epoch_1_step_10");
  // The rate has fallen to its end with the last step, and not before.
  const std::vector<io::Value> lines = log("out");
  EXPECT_DOUBLE_EQ(lines[10].find("lr")->as_double(), 1e-5);
  EXPECT_GT(lines[9].find("lr")->as_double(), 1e-5);
}

TEST_F(GoOn, LargerBatchesDoNotEndARunBeforeItsEpochs) {
  ASSERT_EQ(train(two_epochs("out", 2, 4)), 0);
  ASSERT_EQ(train(two_epochs("out", 7, 1000)), 0);
  EXPECT_EQ(numbers("out", "epoch"), (List{0, 0, 0, 0, 1}));
  EXPECT_EQ(log("out").back().find("num_tokens_per_step")->as_int(), 7 * 23);
  EXPECT_EQ(step_folders("out").back(), "epoch_1_step_4");
  ASSERT_EQ(train(two_epochs("out", 7, 1000)), 0);  // nothing is left to do
  EXPECT_EQ(log("out").size(), 5U);
}

// From the first step on, seven packs a step would make two steps.
TEST_F(GoOn, AWarmUpIsHeldAgainstTheStepsThatWillRun) {
  ASSERT_EQ(train(two_epochs("out", 1, 10, 5)), 0);
  EXPECT_EQ(error_of(two_epochs("out", 7, 1000, 5)), "");
  EXPECT_EQ(numbers("out", "step").back(), 10);
  EXPECT_EQ(error_of(two_epochs("out", 7, 1000, 5)), "");  // nothing is left to do

  ASSERT_EQ(train(two_epochs("short", 1, 2, 1)), 0);
  const std::string message = error_of(two_epochs("short", 7, 1000, 5));
  EXPECT_TRUE(has(message, "lr_scheduler.lr_warmup_steps: 5 leaves none of the run's 4 steps"))
      << message;
  EXPECT_TRUE(has(message, "make the run longer (step_scheduler.num_epochs, max_steps)"))
      << message;
}

// Packs are made in seeded order: those of another seed may be fewer.
TEST(GoOnInOtherPacks, AnEpochThatHasFewerIsOver) {
  RunData data;
  data.source = data::open_dataset(
      data::MockSettings{.vocab_size = 8, .seq_len = 4, .num_samples = 5}, {}, {});
  data.sampler = std::make_unique<data::PackSampler>(
      5, data::SamplerSettings{.global_batch_size = 2, .shuffle = true});
  StepSchedulerSettings settings;
  settings.global_batch_size = 2;
  settings.num_epochs = 3;
  data.scheduler = std::make_unique<StepScheduler>(settings, 1, 3);
  for (const std::int64_t taken : {5, 6}) {
    TrainingPosition at;
    at.next_step = 6;
    at.cursor = {.epoch = 1, .next = taken};
    testing::internal::CaptureStderr();
    go_on(data, at);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(at.cursor, (data::SamplerCursor{.epoch = 2, .next = 0}));
    EXPECT_EQ(data.scheduler->total_steps(), 9);
    EXPECT_TRUE(has(said, cat("had taken ", taken,
                              " packs of epoch 1, and with this seed an epoch "
                              "has 5: it is over, and epoch 2 begins")))
        << said;
  }
}

TEST_F(GoOn, DropLastLeavesOutWhatALargerBatchCannotTake) {
  ASSERT_EQ(train(two_epochs("out", 2, 2)), 0);  // four of the seven packs
  ASSERT_EQ(
      train(with(two_epochs("out", 4, 1000), "shuffle: true", "shuffle: true, drop_last: true")),
      0);
  EXPECT_EQ(numbers("out", "epoch"), (List{0, 0, 1}));
  EXPECT_EQ(log("out").back().find("num_tokens_per_step")->as_int(), 4 * 23);
}

TEST_F(GoOn, ARunWhoseStepsAreDoneNamesWhatWritesTheHuggingFaceFolderThatItLacks) {
  const std::string final = mock_recipe("out", 4, 2);
  const std::string never =
      with(final, "{enabled: true,", "{enabled: true, save_consolidated: never,");
  const auto said_by = [&](const std::string& recipe) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(train(recipe), 0);
    return testing::internal::GetCapturedStderr();
  };
  ASSERT_EQ(train(never), 0);
  EXPECT_FALSE(has(said_by(never), "Hugging Face"));
  const std::string said = said_by(final);
  EXPECT_TRUE(has(said, cat(path("out/epoch_1_step_3"), " has no Hugging Face folder"))) << said;
  EXPECT_TRUE(has(said, export_command(path("out/epoch_1_step_3")))) << said;
  fs::create_directories(path("out/epoch_1_step_3/model/consolidated"));
  EXPECT_FALSE(has(said_by(final), "Hugging Face"));
}

TEST_F(GoOn, OtherDataBeginAtTheirFirstPackAndTheirEpochsAreCounted) {
  ASSERT_EQ(train(two_epochs("first", 1, 12)), 0);  // pack 5 of epoch 1
  for (const int packs : {3, 40}) {
    const std::string out = cat("second", packs);
    const std::string recipe = with(restored(two_epochs(out, 1, 1000), path("first/LATEST")),
                                    "num_samples: 7", cat("num_samples: ", packs));
    testing::internal::CaptureStderr();
    ASSERT_EQ(train(recipe), 0);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(has(said,
                    "had taken 5 packs of epoch 1 of its own: these begin at their first "
                    "pack, in epoch 0"))
        << said;
    const List steps = numbers(out, "step");
    EXPECT_EQ(steps.front(), 12);
    EXPECT_EQ(steps.size(), 2U * static_cast<std::size_t>(packs));  // two epochs of these
    EXPECT_EQ(numbers(out, "epoch")[static_cast<std::size_t>(packs)], 1);
  }
}

TEST_F(GoOn, AnotherSeedGivesTheSameDataAnotherOrder) {
  ASSERT_EQ(train(two_epochs("first", 1, 12)), 0);
  const std::string recipe =
      with(restored(two_epochs("second", 1, 1000), path("first/LATEST")), "seed: 5", "seed: 6");
  ASSERT_EQ(train(recipe), 0);
  EXPECT_EQ(numbers("second", "epoch"), (List{1, 1}));  // the packs that were left
}

TEST_F(GoOn, OtherDataGoOnWhereTheirOwnRunWasStopped) {
  ASSERT_EQ(train(two_epochs("first", 1, 12)), 0);
  const std::string recipe =
      with(two_epochs("second", 1, 1000), "num_samples: 7", "num_samples: 5");
  said_by_stopped(restored(recipe, path("first/LATEST")));
  EXPECT_EQ(read_position(path("second/LATEST")).cursor.next, 1);
  ASSERT_EQ(train(recipe), 0);
  EXPECT_EQ(numbers("second", "epoch"), (List{0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace glmtune::train
