#include "data/packed_dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::data {
namespace {

constexpr std::int32_t X = kNoLabel;

// Samples of given lengths, ids counting up from 1 over all of them; every token is trained on.
class Counting : public SampleMaker {
 public:
  explicit Counting(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {
    std::int32_t next = 1;
    for (const std::int64_t n : lengths_) {
      starts_.push_back(next);
      next += static_cast<std::int32_t>(n);
    }
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(lengths_.size()); }
  Sample sample(std::int64_t row, text::EncodeCache& /*cache*/) const override {
    Sample s;
    const auto r = static_cast<std::size_t>(row);
    for (std::int64_t t = 0; t < lengths_[r]; ++t) {
      s.ids.push_back(starts_[r] + static_cast<std::int32_t>(t));
    }
    if (!s.ids.empty()) s.labels.assign(s.ids.begin() + 1, s.ids.end());
    if (!s.ids.empty()) s.labels.push_back(stop);
    if (bad_from >= 0 && row >= bad_from) {
      if (throws) fail(cat(where(row), ": bad"));
      std::fill(s.labels.begin(), s.labels.end(), X);
    }
    return s;
  }
  std::string where(std::int64_t row) const override { return cat("f:", row + 1); }
  void add_to(ContentHash& hash) const override { hash.add(size()); }
  double max_dropped_fraction() const override { return 0.5; }

  std::int32_t stop = X;
  std::int64_t bad_from = -1;
  bool throws = false;

 private:
  std::vector<std::int64_t> lengths_;
  std::vector<std::int32_t> starts_;
};

PackedDataset pack(std::vector<std::int64_t> lengths, const PackingSettings& settings) {
  return PackedDataset(std::make_unique<Counting>(std::move(lengths)), settings, 0);
}

// recipes.md section 5, 6 (without the padding, which does not exist here) and user_reports.md 22.
TEST(Packing, NextFitClosesAPackAtTheLastSampleThatFits) {
  const PackedDataset data = pack({3, 4, 2, 5}, {.packed_sequence_size = 10, .max_packs = {}});
  ASSERT_EQ(data.size(), 2);
  const Pack first = data.pack(0);
  EXPECT_EQ(first.ids, (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(first.bounds, (std::vector<std::int32_t>{0, 3, 7, 9}));
  EXPECT_EQ(first.labels, (std::vector<std::int32_t>{2, 3, X, 5, 6, 7, X, 9, X}));
  EXPECT_EQ(data.pack(1).bounds, (std::vector<std::int32_t>{0, 5}));
  EXPECT_EQ(data.max_tokens(), 9);
  EXPECT_EQ(data.most_documents(), 3);
  EXPECT_EQ(data.where(0, 2), "f:3");
  EXPECT_EQ(data.summary().tokens, 14);
  EXPECT_EQ(data.summary().label_tokens, 10);
}

// user_reports.md 23: a document's last row holds its own stop or nothing.
TEST(Packing, AStopIsALabelOfItsOwnDocument) {
  auto maker = std::make_unique<Counting>(std::vector<std::int64_t>{3, 2});
  maker->stop = 77;
  const PackedDataset data(std::move(maker), {.packed_sequence_size = 8, .max_packs = {}}, 78);
  EXPECT_EQ(data.pack(0).labels, (std::vector<std::int32_t>{2, 3, 77, 5, 77}));
}

// user_reports.md 25 and recipes.md section 8, row 19.
TEST(Packing, LongAndEmptySamplesAreCountedAndNoTargetIsLost) {
  const PackedDataset data =
      pack({4096, 4097, 1, 0, 7}, {.packed_sequence_size = 4096, .max_packs = {}});
  ASSERT_EQ(data.size(), 2);
  EXPECT_EQ(data.pack(0).tokens(), 4096);
  EXPECT_EQ(data.pack(1).tokens(), 7);  // the sample of one token has no target
  std::int64_t labels = 0;
  for (std::int64_t p = 0; p < *data.size(); ++p) labels += data.pack(p).label_tokens();
  EXPECT_EQ(labels, 4095 + 6);
  EXPECT_EQ(data.summary().label_tokens, labels);
  EXPECT_EQ(data.summary().dropped_rows(), 3);
  const std::string text = data.summary().text();
  EXPECT_NE(text.find("dropped 1: longer than the pack of 4096"), std::string::npos) << text;
}

TEST(Packing, LongSamplesAreAnErrorWhenTheRecipeSaysSo) {
  try {
    pack({3, 11}, {.packed_sequence_size = 10, .max_packs = {}, .drop_long_samples = false});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("f:2: 11 tokens"), std::string::npos) << e.what();
  }
}

TEST(Packing, BestFitKeepsAllSamplesInFewerPacks) {
  const std::vector<std::int64_t> lengths{6, 6, 4, 4, 3, 7};
  const auto thd = lay_into_packs(lengths, 10, PackingStrategy::kThd);
  const auto neat = lay_into_packs(lengths, 10, PackingStrategy::kNeat);
  EXPECT_EQ(thd.size(), 4U);
  EXPECT_EQ(neat.size(), 3U);
  std::vector<std::int64_t> all;
  for (const auto& p : neat) all.insert(all.end(), p.begin(), p.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(Packing, RandomLengthsAlwaysFitAndKeepTheirOrder) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 3000; ++i) lengths.push_back(2 + i * 7919 % 97);
  const PackedDataset data = pack(lengths, {.packed_sequence_size = 100, .max_packs = {}});
  std::int32_t next = 1;
  for (std::int64_t p = 0; p < *data.size(); ++p) {
    const Pack pack = data.pack(p);
    EXPECT_LE(pack.tokens(), 100);
    EXPECT_NO_THROW(check_pack(pack, 1 << 30, "p"));
    for (const std::int32_t id : pack.ids) EXPECT_EQ(id, next++);
  }
}

// Whatever order the rows are read in, the file is mended from its top.
TEST(Packing, OfSeveralBadRowsTheFirstOfTheFileIsNamed) {
  auto samples = std::make_unique<Counting>(std::vector<std::int64_t>(200, 3));
  samples->bad_from = 17;
  samples->throws = true;
  PackingSettings settings{.packed_sequence_size = 30, .max_packs = {}, .shuffle = true};
  settings.threads = 2;
  try {
    PackedDataset(std::move(samples), settings, 0);
    FAIL() << "a bad row was taken";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "f:18: bad");
  }
}

// recipes.md 7.10: packs are made in seeded sample order; threads change nothing.
TEST(Packing, SeededOrderIsTheSameForAnyNumberOfThreads) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 5000; ++i) lengths.push_back(1 + (i * 31 + 1) % 63);
  PackingSettings settings{.packed_sequence_size = 256, .max_packs = {}, .shuffle = true};
  settings.threads = 1;
  const PackedDataset one = pack(lengths, settings);
  settings.threads = 5;
  const PackedDataset five = pack(lengths, settings);
  EXPECT_EQ(one.fingerprint(), five.fingerprint());
  EXPECT_EQ(one.pack(7), five.pack(7));
  settings.seed = 43;
  EXPECT_NE(pack(lengths, settings).fingerprint(), one.fingerprint());
  EXPECT_NE(one.pack(0).ids.front(), 1);
}

TEST(Packing, MaxPacksStopsEarly) {
  const PackedDataset data = pack({3, 4, 2, 5, 9, 9}, {.packed_sequence_size = 10, .max_packs = 2});
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.summary().samples, 4);
}

TEST(Packing, WithoutPackingEverySampleIsAPack) {
  const PackedDataset data = pack({3, 4, 2}, {.packed_sequence_size = 0, .max_packs = {}});
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(data.pack(1).ids, (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(data.max_tokens(), 4);
  EXPECT_EQ(data.most_documents(), 1);
}

// user_reports.md 14: samples without targets are counted, too many stop the run.
TEST(Packing, SamplesWithoutTargetsAreDroppedUpToACeiling) {
  auto some = std::make_unique<Counting>(std::vector<std::int64_t>(200, 5));
  some->bad_from = 150;
  const PackedDataset data(std::move(some), {.max_packs = {}}, 0);
  EXPECT_EQ(data.size(), 150);
  EXPECT_EQ(data.summary().dropped_rows(), 50);
  auto most = std::make_unique<Counting>(std::vector<std::int64_t>(200, 5));
  most->bad_from = 80;
  EXPECT_THROW(PackedDataset(std::move(most), {.max_packs = {}}, 0), Error);
  auto all = std::make_unique<Counting>(std::vector<std::int64_t>(3, 5));
  all->bad_from = 0;
  EXPECT_THROW(PackedDataset(std::move(all), {.max_packs = {}}, 0), Error);
}

TEST(Packing, TheFirstBadRowIsReportedWhateverThreadMetIt) {
  for (const int threads : {1, 4}) {
    auto maker = std::make_unique<Counting>(std::vector<std::int64_t>(500, 3));
    maker->bad_from = 123;
    maker->throws = true;
    try {
      PackedDataset(std::move(maker), {.max_packs = {}, .threads = threads}, 0);
      FAIL();
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "f:124: bad");
    }
  }
}

TEST(Packing, IdsBeyondTheVocabularyAreNamedByRow) {
  try {
    PackedDataset(std::make_unique<Counting>(std::vector<std::int64_t>{3, 3}), {.max_packs = {}},
                  5);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("f:2: token id 5"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace glmtune::data
