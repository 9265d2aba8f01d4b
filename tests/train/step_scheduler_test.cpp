#include "train/step_scheduler.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace glmtune::train {
namespace {

std::vector<std::int64_t> checkpoints(const StepScheduler& scheduler) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; step < scheduler.total_steps(); ++step)
    if (scheduler.saves_checkpoint(step)) steps.push_back(step);
  return steps;
}

std::string message(const StepSchedulerSettings& settings, std::int64_t dp,
                    std::optional<std::int64_t> epoch) {
  try {
    StepScheduler(settings, dp, epoch);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(StepScheduler, EpochsWithoutNumberDoNotOverflow) {
  StepSchedulerSettings settings;
  settings.global_batch_size = settings.local_batch_size = 1;
  settings.num_epochs = std::int64_t{1} << 62;
  settings.max_steps = 7;
  EXPECT_EQ(StepScheduler(settings, 1, 6).total_steps(), 7);
}

// recipes.md section 5, 4.
TEST(StepScheduler, ChecksOutAtEpochEndsAndTheLastStep) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 1;
  settings.max_steps = 10;
  EXPECT_EQ(checkpoints(StepScheduler(settings, 1, 4)), (std::vector<std::int64_t>{3, 7, 9}));
  settings.save_checkpoint_every_epoch = false;
  EXPECT_EQ(checkpoints(StepScheduler(settings, 1, 4)), (std::vector<std::int64_t>{9}));
  settings.ckpt_every_steps = 5;
  EXPECT_EQ(checkpoints(StepScheduler(settings, 1, 4)), (std::vector<std::int64_t>{4, 9}));
}

TEST(StepScheduler, NullCadenceMeansOnceAnEpoch) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 1;
  settings.num_epochs = 2;
  settings.ckpt_every_steps.reset();
  settings.save_checkpoint_every_epoch = false;
  EXPECT_EQ(checkpoints(StepScheduler(settings, 1, 4)), (std::vector<std::int64_t>{3, 7}));
  settings.max_steps = 10;
  EXPECT_EQ(checkpoints(StepScheduler(settings, 1, std::nullopt)),
            (std::vector<std::int64_t>{4, 9}));
}

// Epochs may begin at another step in a run that goes on with other data.
TEST(StepScheduler, NullCadenceFollowsTheEpochsOfARunThatGoesOn) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 1;
  settings.num_epochs = 3;
  settings.ckpt_every_steps.reset();
  settings.save_checkpoint_every_epoch = false;
  StepScheduler scheduler(settings, 1, 5);
  scheduler.go_on(7, 1, 5);
  std::vector<std::int64_t> saved = checkpoints(scheduler);
  std::erase_if(saved, [](std::int64_t step) { return step < 7; });
  EXPECT_EQ(saved, (std::vector<std::int64_t>{11, 16}));
}

TEST(StepScheduler, EndsAtEpochsOrStepsWhicheverIsFirst) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 1;
  EXPECT_EQ(StepScheduler(settings, 1, 4).total_steps(), 40);
  settings.num_epochs = 2;
  EXPECT_EQ(StepScheduler(settings, 1, 4).total_steps(), 8);
  settings.max_steps = 5;
  EXPECT_EQ(StepScheduler(settings, 1, 4).total_steps(), 5);
  settings.max_steps = 100;
  EXPECT_EQ(StepScheduler(settings, 1, 4).total_steps(), 8);
  settings.num_epochs.reset();
  EXPECT_EQ(StepScheduler(settings, 1, 4).total_steps(), 100);
  settings.max_steps = 0;
  EXPECT_EQ(StepScheduler(settings, 1, 4).total_steps(), 0);
}

TEST(StepScheduler, ValidatesOnItsCadenceAndWithEveryCheckpoint) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 1;
  settings.max_steps = 10;
  settings.val_every_steps = 3;
  settings.ckpt_every_steps = 5;
  const StepScheduler scheduler(settings, 1, 100);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; step < 10; ++step)
    if (scheduler.validates(step)) steps.push_back(step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{2, 4, 5, 8, 9}));
}

TEST(StepScheduler, CountsEpochs) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 1;
  const StepScheduler scheduler(settings, 1, 4);
  EXPECT_EQ(scheduler.epoch_of(3), 0);
  EXPECT_EQ(scheduler.epoch_of(4), 1);
  EXPECT_TRUE(scheduler.ends_epoch(3));
  EXPECT_FALSE(scheduler.ends_epoch(4));
}

// recipes.md section 5, 12: what a step and an epoch are does not depend on the number of ranks.
TEST(StepScheduler, StepsAreTheSameOnAnyNumberOfRanks) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 8;
  settings.local_batch_size = 1;
  settings.num_epochs = 3;
  settings.ckpt_every_steps = 2;
  const StepScheduler one(settings, 1, 5);
  for (const std::int64_t ranks : {2, 4, 8}) {
    const StepScheduler several(settings, ranks, 5);
    EXPECT_EQ(several.total_steps(), one.total_steps());
    EXPECT_EQ(checkpoints(several), checkpoints(one));
  }
}

TEST(StepScheduler, NamesTheNearestLegalBatch) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 256;
  settings.local_batch_size = 4;
  EXPECT_EQ(message(settings, 256, 10),
            "step_scheduler.global_batch_size: 256 is no multiple of local_batch_size 4 x "
            "data-parallel size 256 = 1024; nearest: 1024");
  settings.global_batch_size = 10;
  EXPECT_NE(message(settings, 1, 10).find("nearest: 8 or 12"), std::string::npos);
}

TEST(StepScheduler, NeedsAnEndWhenTheDataHaveNone) {
  EXPECT_NE(message(StepSchedulerSettings{}, 1, std::nullopt).find("step_scheduler.max_steps"),
            std::string::npos);
}

// recipes.md 1.4, start_step and start_epoch.
TEST(StepScheduler, CountsOnFromTheFirstStepThatIsGiven) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 1;
  settings.num_epochs = 3;
  settings.start_step = 4;
  settings.start_epoch = 1;
  settings.ckpt_every_steps = 1000;
  const StepScheduler scheduler(settings, 1, 4);
  EXPECT_EQ(scheduler.total_steps(), 12);  // two epochs are left
  EXPECT_EQ(scheduler.epoch_of(4), 1);
  EXPECT_EQ(scheduler.epoch_of(8), 2);
  EXPECT_TRUE(scheduler.ends_epoch(7));
  settings.start_step = 2;
  settings.max_steps = 9;
  const StepScheduler other(settings, 1, 4);
  EXPECT_EQ(other.total_steps(), 9);
  EXPECT_TRUE(other.ends_epoch(5));
  EXPECT_FALSE(other.ends_epoch(7));
  settings.start_step = 9;
  EXPECT_NE(message(settings, 1, 4).find("start_step: 9 is not before the end"), std::string::npos);
}

TEST(StepScheduler, GoesOnWithStepsOfAnotherSizeToTheSameEndOfTheData) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 1;
  settings.num_epochs = 3;
  settings.ckpt_every_steps = 1000;
  StepScheduler smaller(settings, 1, 7);
  smaller.go_on(3, 0, 1);  // three steps of two packs, one pack is left
  EXPECT_EQ(smaller.total_steps(), 4 + 2 * 7);
  EXPECT_TRUE(smaller.ends_epoch(3));
  EXPECT_EQ(smaller.epoch_of(3), 0);
  EXPECT_EQ(smaller.epoch_of(4), 1);
  EXPECT_EQ(checkpoints(smaller), (std::vector<std::int64_t>{3, 10, 17}));
  StepScheduler larger(settings, 1, 1);
  larger.go_on(11, 1, 1);
  EXPECT_EQ(larger.total_steps(), 13);
  EXPECT_EQ(larger.epoch_of(12), 2);
  larger.go_on(13, 3, 1);
  EXPECT_EQ(larger.total_steps(), 13);  // nothing is left
  settings.max_steps = 12;
  StepScheduler bounded(settings, 1, 1);
  bounded.go_on(11, 1, 1);
  EXPECT_EQ(bounded.total_steps(), 12);
}

TEST(StepScheduler, GoesOnAsPlannedWithStepsOfTheSameSize) {
  StepSchedulerSettings settings;
  settings.global_batch_size = 1;
  settings.num_epochs = 3;
  settings.start_step = 4;
  const StepScheduler whole(settings, 1, 4);
  for (std::int64_t step = 4; step < whole.total_steps(); ++step) {
    StepScheduler later(settings, 1, 4);
    later.go_on(step, whole.epoch_of(step), 4 - (step - 4) % 4);
    EXPECT_EQ(later.total_steps(), whole.total_steps());
    for (std::int64_t s = step; s < whole.total_steps(); ++s) {
      EXPECT_EQ(later.epoch_of(s), whole.epoch_of(s));
      EXPECT_EQ(later.saves_checkpoint(s), whole.saves_checkpoint(s));
    }
  }
}

}  // namespace
}  // namespace glmtune::train
