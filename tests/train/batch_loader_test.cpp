#include "train/batch_loader.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/cat.h"
#include "models/glm_moe_dsa.h"
#include "support/tiny_model.h"

namespace glmtune::train {
namespace {

// Pack n has n + 1 tokens; asking for pack `bad` is an error.
class Growing : public data::PackSource {
 public:
  explicit Growing(std::int64_t size, std::int64_t bad = -1) : size_(size), bad_(bad) {}
  std::optional<std::int64_t> size() const override { return size_; }
  data::Pack pack(std::int64_t number) const override {
    if (number == bad_) fail(cat("pack ", number, " is damaged"));
    ++asked_;
    const auto n = static_cast<std::size_t>(number + 1);
    data::Pack p{.ids = std::vector<std::int32_t>(n, 1),
                 .labels = std::vector<std::int32_t>(n, 2),
                 .bounds = {0, static_cast<std::int32_t>(n)}};
    p.labels.back() = data::kNoLabel;
    return p;
  }
  std::int64_t max_tokens() const override { return size_; }
  std::string fingerprint() const override { return "growing"; }
  const data::DataSummary& summary() const override { return summary_; }
  std::string where(std::int64_t, std::int64_t) const override { return "test"; }
  std::int64_t asked() const { return asked_; }

 private:
  std::int64_t size_, bad_;
  mutable std::atomic<std::int64_t> asked_ = 0;
  data::DataSummary summary_;
};

struct Fixture {
  explicit Fixture(std::int64_t packs, std::int64_t bad = -1, bool by_length = false)
      : source(packs, bad),
        sampler(packs, {.global_batch_size = 3, .seed = 1, .shuffle = false, .drop_last = false},
                by_length ? data::PackLength([this](std::int64_t n) { return source.tokens(n); })
                          : data::PackLength()),
        engine(models::make_model(test::tiny_config(), DType::kF32, 1e-5), {}) {}
  BatchLoader loader(std::int64_t steps, data::SamplerCursor at = {}) {
    return {{.source = source,
             .sampler = sampler,
             .engine = engine,
             .local_batch_size = 2,
             .count_flops =
                 [](const data::Pack& p) {
                   return std::pair(double(p.tokens()), 2.0 * double(p.tokens()));
                 }},
            at,
            steps};
  }
  Growing source;
  data::PackSampler sampler;
  Engine engine;
};

TEST(BatchLoader, GivesTheSamplersBatchesInMicroBatches) {
  Fixture f(7);
  BatchLoader loader = f.loader(4);
  const StepBatch first = loader.next();
  ASSERT_EQ(first.rows.size(), 2U);  // packs of 1, 2 | 3 tokens
  EXPECT_EQ(first.tokens, 6);
  EXPECT_EQ(first.label_tokens, 3);
  EXPECT_EQ(first.tokens_to_last_label, 3);
  EXPECT_EQ(first.flops, 6);
  EXPECT_EQ(first.automodel_flops, 12);
  EXPECT_EQ(first.after, (data::SamplerCursor{.epoch = 0, .next = 3}));
  EXPECT_EQ(loader.next().tokens, 4 + 5 + 6);
  const StepBatch last = loader.next();  // of the epoch: a single pack
  EXPECT_EQ(last.tokens, 7);
  EXPECT_EQ(last.after, (data::SamplerCursor{.epoch = 1, .next = 0}));
  EXPECT_EQ(loader.next().epoch, 1);
}

// dataloader.group_by_length: 3, 2 | 1 tokens instead of 1, 2 | 3.
TEST(BatchLoader, PutsTheLongestPacksOfABatchTogether) {
  Fixture f(7, -1, true);
  BatchLoader loader = f.loader(2);
  const StepBatch first = loader.next();
  ASSERT_EQ(first.rows.size(), 2U);
  EXPECT_EQ(first.tokens, 6);
  EXPECT_EQ(first.rows[0].tokens(), 5);
  EXPECT_EQ(first.rows[1].tokens(), 1);
  EXPECT_EQ(first.after, (data::SamplerCursor{.epoch = 0, .next = 3}));
  EXPECT_EQ(f.loader(1, {.epoch = 0, .next = 2}).next().rows[0].tokens(), 5 + 4);
}

TEST(BatchLoader, BeginsWhereARunWasInterrupted) {
  Fixture f(7);
  EXPECT_EQ(f.loader(1, {.epoch = 0, .next = 3}).next().tokens, 4 + 5 + 6);
}

TEST(BatchLoader, AnErrorComesWithTheStepItBelongsTo) {
  Fixture f(9, 4);
  BatchLoader loader = f.loader(3);
  EXPECT_EQ(loader.next().tokens, 6);
  try {
    (void)loader.next();
    FAIL() << "pack 4 was accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "pack 4 is damaged");
  }
}

TEST(BatchLoader, PreparesAFewBatchesOnlyAndEndsUnfinished) {
  Fixture f(3000);
  {
    BatchLoader loader = f.loader(1000);
    (void)loader.next();
  }
  EXPECT_LE(f.source.asked(), 4 * 3);
}

}  // namespace
}  // namespace glmtune::train
