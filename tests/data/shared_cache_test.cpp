// The cache of packs under several processes at once, as the ranks of a run are: user_reports.md 73
// (one tokenises while the others wait; whoever does it may be killed), 28 and 30 (what the ranks
// are dealt adds up to the batch).
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/cat.h"
#include "base/error.h"
#include "data/pack_cache.h"
#include "data/pack_sampler.h"
#include "data/packed_dataset.h"
#include "io/file_lock.h"
#include "support/processes.h"
#include "support/temp_folder.h"

namespace glmtune::data {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::Ended;
using test::Processes;

class SharedCache : public ::testing::Test {
 protected:
  // Counts how often packs are made, over all processes.
  void count_a_making() const {
    std::ofstream(folder_ / "makings", std::ios::app) << "x" << std::flush;
  }
  std::uintmax_t makings() const {
    std::error_code none;
    const auto size = fs::file_size(folder_ / "makings", none);
    return none ? 0 : size;
  }
  std::string cache_folder() const { return folder_ / "cache"; }
  PackCache cache() const { return {cache_folder(), "k"}; }

  static PackedContents some_contents() {
    PackedContents contents;
    Sample s;
    s.ids = {1, 2};
    s.labels = {2, kNoLabel};
    contents.store.add(s, 0);
    contents.documents = {0};
    contents.starts = {0, 1};
    return contents;
  }
  static std::string tokens_of(const PackedContents& contents) {
    return cat(contents.store.size(), " samples");
  }

  TempFolder folder_;
};

// Rows that take a moment, and say when the first of them is made.
class SlowRows : public SampleMaker {
 public:
  explicit SlowRows(std::function<void()> begun) : begun_(std::move(begun)) {}
  std::int64_t size() const override { return 90; }
  Sample sample(std::int64_t row, text::EncodeCache& /*cache*/) const override {
    if (row == 0) {
      begun_();
      std::this_thread::sleep_for(100ms);
    }
    Sample s;
    for (std::int64_t t = 0; t < 3 + row % 17; ++t)
      s.ids.push_back(static_cast<std::int32_t>(row + t));
    s.labels.assign(s.ids.begin() + 1, s.ids.end());
    s.labels.push_back(kNoLabel);
    return s;
  }
  std::string where(std::int64_t row) const override { return cat("f:", row); }
  void add_to(ContentHash& hash) const override { hash.add(size()); }

 private:
  std::function<void()> begun_;
};

std::string text_of(const PackedDataset& packs, std::int64_t number) {
  const Pack pack = packs.pack(number);
  std::string out = cat(number, ":");
  for (const auto* part : {&pack.ids, &pack.labels, &pack.bounds})
    for (const std::int32_t x : *part) out += cat(" ", x);
  return out;
}

TEST_F(SharedCache, OfFourProcessesOneMakesThePacksOfAll) {
  Processes ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.start([&] {
      const PackedDataset packs(
          std::make_unique<SlowRows>([&] { count_a_making(); }),
          {.packed_sequence_size = 40, .max_packs = {}, .cache_folder = cache_folder()}, 0);
      std::string all = packs.fingerprint() + "\n";
      for (std::int64_t p = 0; p < *packs.size(); ++p) all += cat(text_of(packs, p), "\n");
      return all;
    });
  const std::vector<Ended> ended = ranks.wait();
  EXPECT_EQ(makings(), 1U);
  EXPECT_GT(ended[0].said.size(), 1000U);
  for (const Ended& rank : ended) {
    EXPECT_FALSE(rank.failed) << rank.said;
    EXPECT_EQ(rank.said, ended[0].said);
  }
}

TEST_F(SharedCache, AnotherTakesOverFromAKilledMaker) {
  Processes ranks;
  ranks.start([&] {
    return tokens_of(cache().get([&]() -> PackedContents {
      count_a_making();
      std::ofstream(folder_ / "begun") << "x" << std::flush;
      std::this_thread::sleep_for(1min);
      fail("the maker was to be killed");
    }));
  });
  test::wait_for_file(folder_ / "begun");
  for (int rank = 1; rank < 4; ++rank)
    ranks.start([&] {
      return tokens_of(cache().get([&] {
        count_a_making();
        return some_contents();
      }));
    });
  std::ofstream(fs::path(cache_folder()) / ".k.packs.tmp-7-0") << "of the killed one";
  std::this_thread::sleep_for(100ms);
  ranks.kill(0);
  const std::vector<Ended> ended = ranks.wait();
  EXPECT_EQ(ended[0].signal, SIGKILL);
  for (std::size_t rank = 1; rank < 4; ++rank) EXPECT_EQ(ended[rank].said, "1 samples");
  EXPECT_EQ(makings(), 2U);
  EXPECT_FALSE(fs::exists(fs::path(cache_folder()) / ".k.packs.tmp-7-0"));
}

TEST_F(SharedCache, TheErrorOfTheMakerIsThatOfAllWhoWaited) {
  Processes ranks;
  const auto get = [&] {
    return tokens_of(cache().get([&]() -> PackedContents {
      count_a_making();
      std::ofstream(folder_ / "begun") << "x" << std::flush;
      std::this_thread::sleep_for(500ms);
      fail("rows.jsonl:3: a bad row\nof two lines");
    }));
  };
  ranks.start(get);
  test::wait_for_file(folder_ / "begun");
  for (int rank = 1; rank < 4; ++rank) ranks.start(get);
  for (const Ended& rank : ranks.wait()) {
    EXPECT_TRUE(rank.failed);
    EXPECT_EQ(rank.said, "rows.jsonl:3: a bad row\nof two lines");
  }
  EXPECT_EQ(makings(), 1U);
  // Who comes later tries again: the reason may be gone.
  ranks.start([&] { return tokens_of(cache().get(some_contents)); });
  EXPECT_EQ(ranks.wait()[0].said, "1 samples");
}

TEST_F(SharedCache, AWaitSaysForWhomAndSinceWhen) {
  const PackCache cache = this->cache();
  auto other = std::make_unique<io::FileLock>(cache.path() + ".lock");
  other->set_note("process 7 on host node1, since 2026-11-30T17:20:05.123Z");
  std::vector<std::string> said;
  const std::jthread ends([&] {
    std::this_thread::sleep_for(3500ms);
    other.reset();
  });
  (void)cache.get(some_contents, [&](const std::string& text) { said.push_back(text); });
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0],
            cat("waiting for process 7 on host node1, since 2026-11-30T17:20:05.123Z, which makes ",
                cache.path()));
}

// Two epochs of a rank, a line a pack; every batch ends with a line of its own.
std::string share_of_all_batches(const PackedDataset& packs, std::int64_t rank,
                                 std::int64_t ranks) {
  const PackSampler sampler(packs.size(), {.global_batch_size = 9});
  std::string all;
  for (SamplerCursor at; at.epoch < 2;) {
    const GlobalBatch batch = sampler.batch(at);
    for (const std::int64_t number : batch.share(rank, ranks))
      all += cat(text_of(packs, number), "\n");
    all += "end\n";
    at = batch.after;
  }
  return all;
}

// [batch][pack]
std::vector<std::vector<std::string>> batches_of(const std::string& said) {
  std::vector<std::vector<std::string>> out(1);
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line == "end")
      out.emplace_back();
    else
      out.back().push_back(line);
  }
  out.pop_back();
  return out;
}

// Every rank opens the cache in a process of its own and takes its share of each batch: dealt back
// one by one the shares are the batches of one rank, whatever the number of ranks.
TEST_F(SharedCache, SharesOfAnyNumberOfRanksAreTheSamePacksInTheSameOrder) {
  const auto dealt = [&](std::int64_t ranks) {
    Processes processes;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      processes.start([&, rank] {
        const PackedDataset packs(std::make_unique<SlowRows>([&] { count_a_making(); }),
                                  {.packed_sequence_size = 40,
                                   .max_packs = {},
                                   .shuffle = true,
                                   .cache_folder = cache_folder()},
                                  0);
        return share_of_all_batches(packs, rank, ranks);
      });
    std::vector<std::vector<std::vector<std::string>>> shares;  // [rank][batch][pack]
    for (const Ended& rank : processes.wait()) {
      EXPECT_FALSE(rank.failed) << rank.said;
      shares.push_back(batches_of(rank.said));
    }
    std::string all;
    for (std::size_t batch = 0; batch < shares[0].size(); ++batch) {
      for (std::size_t i = 0; i < shares[0][batch].size(); ++i)
        for (const auto& share : shares)
          if (i < share.at(batch).size()) all += share[batch][i] + "\n";
      all += "end\n";
    }
    return all;
  };
  const std::string alone = dealt(1);
  EXPECT_EQ(batches_of(alone)[0].size(), 9U);
  EXPECT_LT(batches_of(alone).back().size(), 8U);  // not every rank of eight has a pack of it
  for (const std::int64_t ranks : {2, 3, 4, 8}) EXPECT_EQ(dealt(ranks), alone) << ranks;
  EXPECT_EQ(makings(), 1U);
}

}  // namespace
}  // namespace glmtune::data
