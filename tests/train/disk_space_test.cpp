#include "train/disk_space.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace glmtune::train {
namespace {

// Ten steps in one epoch, a save every third and at the end: steps 2, 5, 8, 9.
DiskNeed need(SaveConsolidated model, std::optional<std::int64_t> recent = {},
              std::int64_t first = 0, std::int64_t own = 0, bool keeps_lowest = false) {
  CheckpointSettings settings;
  settings.save_consolidated = model;
  settings.max_recent_checkpoints = recent;
  StepSchedulerSettings steps;
  steps.global_batch_size = 1;
  steps.num_epochs = 1;
  steps.ckpt_every_steps = 3;
  const StepScheduler schedule(steps, 1, 10);
  return disk_need(settings, schedule, first, {.state = 100, .model = 10}, own, keeps_lowest);
}

TEST(DiskSpace, CountsWhatLiesThereAtOneTime) {
  using enum SaveConsolidated;
  EXPECT_EQ(need(kFinal).checkpoints, 4);
  EXPECT_EQ(need(kFinal).smallest, 100U);
  EXPECT_EQ(need(kFinal).all, 410U);
  EXPECT_EQ(need(kEvery).smallest, 110U);
  EXPECT_EQ(need(kEvery).all, 440U);
  EXPECT_EQ(need(kNever).all, 400U);
  // The new one is written before an old one goes.
  EXPECT_EQ(need(kFinal, 2).checkpoints, 3);
  EXPECT_EQ(need(kFinal, 2).all, 310U);
  // Resumed behind step 8: the last save only, with the model.
  EXPECT_EQ(need(kFinal, {}, 9).smallest, 110U);
}

TEST(DiskSpace, WhatARunHasSavedAlreadyNeedsNoRoomAgain) {
  using enum SaveConsolidated;
  EXPECT_EQ(need(kNever, 2, 3, 1).checkpoints, 3);
  EXPECT_EQ(need(kNever, 2, 3, 1).all, 200U);
  EXPECT_EQ(need(kNever, 2, 6, 2).all, 100U);
  EXPECT_EQ(need(kNever, 1, 6, 5).all, 100U);  // the first save comes before five are removed
  EXPECT_EQ(need(kNever, {}, 6, 2).checkpoints, 4);
  EXPECT_EQ(need(kNever, {}, 6, 2).all, 200U);
}

// recipes.md 2.5: retention leaves what a link names.
TEST(DiskSpace, TheLowestValidationLossKeepsACheckpointBesideTheNewestOnes) {
  using enum SaveConsolidated;
  EXPECT_EQ(need(kNever, 1, 0, 0, true).checkpoints, 3);
  EXPECT_EQ(need(kNever, 1, 0, 0, true).all, 300U);
  EXPECT_EQ(need(kNever, 1, 6, 2, true).all, 100U);
  EXPECT_EQ(need(kNever, 4, 0, 0, true).checkpoints, 4);  // no more than there are saves
}

TEST(DiskSpace, NoRoomForTheFirstSaveIsAnErrorForALaterOneAWarning) {
  const DiskNeed n{.smallest = 100, .all = 400, .checkpoints = 4};
  EXPECT_EQ(check_disk_space("out", n, 400), "");
  EXPECT_NE(check_disk_space("out", n, 399).find("max_recent_checkpoints"), std::string::npos);
  EXPECT_THROW((void)check_disk_space("out", n, 99), MachineError);
}

}  // namespace
}  // namespace glmtune::train
