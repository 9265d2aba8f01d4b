#include "data/pack_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "data/shuffle.h"

namespace glmtune::data {
namespace {

TEST(Permutation, IsTheSameOnEveryMachineAndDiffersByStream) {
  EXPECT_EQ(permutation(6, 42, 0), permutation(6, 42, 0));
  EXPECT_NE(permutation(100, 42, 0), permutation(100, 42, 1));
  EXPECT_NE(permutation(100, 42, 0), permutation(100, 43, 0));
  auto sorted = permutation(1000, 7, 3);
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    EXPECT_EQ(sorted[i], static_cast<std::int64_t>(i));
  }
}

// user_reports.md 69: the last, partial batch is smaller and repeats nothing.
TEST(PackSampler, EveryPackOnceAnEpochAndALastSmallerBatch) {
  const PackSampler sampler(10, {.global_batch_size = 4});
  EXPECT_EQ(sampler.steps_per_epoch(), 3);
  SamplerCursor at;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> seen;
    for (const std::size_t want : {4U, 4U, 2U}) {
      const GlobalBatch batch = sampler.batch(at);
      EXPECT_EQ(batch.packs.size(), want);
      EXPECT_EQ(batch.last_of_epoch, want == 2);
      seen.insert(batch.packs.begin(), batch.packs.end());
      at = batch.after;
    }
    EXPECT_EQ(seen.size(), 10U);
    EXPECT_EQ(at, (SamplerCursor{epoch + 1, 0}));
  }
}

TEST(PackSampler, DropLastLeavesTheIncompleteBatchOut) {
  const PackSampler sampler(10, {.global_batch_size = 4, .drop_last = true});
  EXPECT_EQ(sampler.steps_per_epoch(), 2);
  const GlobalBatch second = sampler.batch(sampler.batch({}).after);
  EXPECT_TRUE(second.last_of_epoch);
  EXPECT_EQ(second.after, (SamplerCursor{1, 0}));
}

// user_reports.md section 3, exact mid-epoch resume.
TEST(PackSampler, GoesOnFromASavedPositionAsIfNeverStopped) {
  const SamplerSettings settings{.global_batch_size = 3, .seed = 9};
  const PackSampler first(11, settings);
  const PackSampler second(11, settings);
  SamplerCursor at;
  for (int step = 0; step < 20; ++step) {
    const GlobalBatch a = first.batch(at);
    EXPECT_EQ(second.batch(at).packs, a.packs);
    at = a.after;
  }
}

TEST(PackSampler, CountsTheStepsToTheEndOfAnEpoch) {
  const PackSampler sampler(7, {.global_batch_size = 4});
  EXPECT_EQ(sampler.steps_left({2, 0}), 2);
  EXPECT_EQ(sampler.steps_left({2, 3}), 1);
  EXPECT_EQ(sampler.go_on({2, 6}), (SamplerCursor{2, 6}));
  const PackSampler whole(7, {.global_batch_size = 4, .drop_last = true});
  EXPECT_EQ(whole.go_on({2, 3}), (SamplerCursor{2, 3}));
  EXPECT_EQ(whole.steps_left({2, 3}), 1);
  EXPECT_EQ(whole.go_on({2, 4}), (SamplerCursor{3, 0}));
  EXPECT_THROW((void)whole.go_on({0, 7}), Error);
  const PackSampler endless(std::nullopt, {.global_batch_size = 4, .shuffle = false});
  EXPECT_EQ(endless.go_on({0, 99}), (SamplerCursor{0, 99}));
  EXPECT_EQ(endless.steps_left({0, 99}), std::nullopt);
}

TEST(PackSampler, TheOrderOfAnEpochDoesNotDependOnTheBatchSize) {
  const PackSampler two(12, {.global_batch_size = 2});
  const PackSampler six(12, {.global_batch_size = 6});
  std::vector<std::int64_t> by_two;
  SamplerCursor at;
  for (int step = 0; step < 3; ++step) {
    const GlobalBatch batch = two.batch(at);
    by_two.insert(by_two.end(), batch.packs.begin(), batch.packs.end());
    at = batch.after;
  }
  EXPECT_EQ(by_two, six.batch({}).packs);
}

TEST(PackSampler, WithoutEndNumbersGoOnAndShufflingIsRefused) {
  const PackSampler sampler(std::nullopt, {.global_batch_size = 2, .shuffle = false});
  EXPECT_EQ(sampler.batch({0, 4}).packs, (std::vector<std::int64_t>{4, 5}));
  EXPECT_FALSE(sampler.batch({0, 4}).last_of_epoch);
  EXPECT_FALSE(sampler.steps_per_epoch());
  EXPECT_THROW(PackSampler(std::nullopt, {.shuffle = true}), Error);
}

// user_reports.md section 3, nothing to learn from.
TEST(PackSampler, TooFewPacksForAStepIsAnErrorOrASmallerBatch) {
  EXPECT_THROW(PackSampler(3, {.global_batch_size = 4, .drop_last = true}), Error);
  EXPECT_EQ(PackSampler(3, {.global_batch_size = 4}).batch({}).packs.size(), 3U);
  EXPECT_THROW(PackSampler(0, {.global_batch_size = 4}), Error);
  EXPECT_THROW(PackSampler(3, {.global_batch_size = 2}).batch({0, 3}), Error);
}

}  // namespace
}  // namespace glmtune::data
