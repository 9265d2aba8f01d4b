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
  for (const std::int64_t beyond :
       {7, 8, 100}) {  // of another seed's packs, of which there were more
    EXPECT_EQ(sampler.go_on({2, beyond}), (SamplerCursor{3, 0}));
    EXPECT_EQ(whole.go_on({2, beyond}), (SamplerCursor{3, 0}));
  }
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

// dataloader.group_by_length, on packs of these lengths.
constexpr std::int64_t kLengths[] = {7, 3, 9, 3, 5, 12, 1, 9, 4, 3, 8};
PackSampler by_length(std::int64_t batch, bool shuffle = true, bool drop_last = false) {
  return {11,
          {.global_batch_size = batch, .seed = 9, .shuffle = shuffle, .drop_last = drop_last},
          [](std::int64_t pack) { return kLengths[pack]; }};
}

// The lists are computed apart from this program: the permutation of shuffle.h, cut into fours,
// each sorted by falling length with the permutation's order among equals.
TEST(PackSamplerByLength, DealsABatchLongestFirst) {
  const std::vector<std::vector<std::int64_t>> want{{5, 7, 10, 8}, {4, 9, 1, 6}, {2, 0, 3},
                                                    {5, 10, 0, 1}, {2, 4, 8, 3}, {7, 9, 6}};
  const PackSampler sampler = by_length(4);
  SamplerCursor at;
  for (const std::vector<std::int64_t>& packs : want) {
    const GlobalBatch batch = sampler.batch(at);
    EXPECT_EQ(batch.packs, packs);
    at = batch.after;
  }
  EXPECT_EQ(at, (SamplerCursor{2, 0}));
  EXPECT_EQ(by_length(4, false).batch({0, 4}).packs, (std::vector<std::int64_t>{5, 7, 4, 6}));
  const PackSampler endless(std::nullopt, {.global_batch_size = 3, .shuffle = false},
                            [](std::int64_t pack) { return kLengths[pack % 11]; });
  EXPECT_EQ(endless.batch({0, 21}).packs, (std::vector<std::int64_t>{21, 22, 23}));
}

TEST(PackSamplerByLength, LeavesWhatMakesUpAStepAsItIs) {
  for (const bool drop_last : {false, true}) {
    const PackSampler grouped = by_length(4, true, drop_last);
    const PackSampler plain(11, grouped.settings());
    SamplerCursor at;
    for (int step = 0; step < 9; ++step) {
      GlobalBatch a = grouped.batch(at), b = plain.batch(at);
      std::sort(a.packs.begin(), a.packs.end());
      std::sort(b.packs.begin(), b.packs.end());
      EXPECT_EQ(a.packs, b.packs);
      EXPECT_EQ(a.after, b.after);
      at = a.after;
    }
  }
}

// A resume may come at any pack, and with another batch size.
TEST(PackSamplerByLength, EveryPackOnceAnEpochFromAnyPositionWithAnyBatchSize) {
  for (std::int64_t first = 1; first < 11; ++first)
    for (const std::int64_t then : {1, 2, 3, 5, 11}) {
      std::vector<std::int64_t> seen = by_length(first).batch({1, 0}).packs;
      for (SamplerCursor at{1, first}; at.epoch == 1;) {
        const GlobalBatch batch = by_length(then).batch(at);
        seen.insert(seen.end(), batch.packs.begin(), batch.packs.end());
        at = batch.after;
      }
      std::sort(seen.begin(), seen.end());
      EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
    }
}

// Micro-batch k of a batch is rank k % ranks's: the micro-batches that run side by side are
// neighbours by length, however many ranks there are.
TEST(PackSamplerByLength, RanksSideBySideHoldPacksOfNeighbouringLengths) {
  const std::vector<std::int64_t> packs = by_length(8).batch({}).packs;
  for (const std::size_t ranks : {1U, 2U, 4U, 8U}) {
    std::int64_t shortest_before = 1000;
    for (std::size_t k = 0; k < packs.size(); k += ranks) {
      std::int64_t longest = 0, shortest = 1000;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        longest = std::max(longest, kLengths[packs[k + rank]]);
        shortest = std::min(shortest, kLengths[packs[k + rank]]);
      }
      EXPECT_LE(longest, shortest_before);
      shortest_before = shortest;
    }
  }
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
