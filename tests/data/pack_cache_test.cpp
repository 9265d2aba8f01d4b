#include "data/pack_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/cat.h"
#include "data/packed_dataset.h"

namespace glmtune::data {
namespace {

namespace fs = std::filesystem;

class Rising : public SampleMaker {
 public:
  explicit Rising(std::int64_t rows, int* made = nullptr) : rows_(rows), made_(made) {}
  std::int64_t size() const override { return rows_; }
  Sample sample(std::int64_t row, text::EncodeCache& /*cache*/) const override {
    if (made_ != nullptr) ++*made_;
    Sample s;
    for (std::int64_t t = 0; t < 3 + row % 70; ++t) {
      s.ids.push_back(static_cast<std::int32_t>(row + t));
    }
    s.labels.assign(s.ids.begin() + 1, s.ids.end());
    s.labels.push_back(row % 2 == 0 ? 7 : kNoLabel);
    s.labels[0] = kNoLabel;
    if (row % 9 == 0) s.notes.push_back({"a \"note\"\n", 2});
    if (row % 11 == 5) s.dropped = "for a reason";
    return s;
  }
  std::string where(std::int64_t row) const override { return cat("f:", row); }
  void add_to(ContentHash& hash) const override { hash.add(rows_); }

 private:
  std::int64_t rows_;
  int* made_;
};

class PackCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "cache_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    settings_.packed_sequence_size = 128;
    settings_.cache_folder = folder_;
    settings_.threads = 1;
  }
  void TearDown() override { fs::remove_all(folder_); }

  PackedDataset open(std::int64_t rows, int* made = nullptr) const {
    return PackedDataset(std::make_unique<Rising>(rows, made), settings_, 0);
  }
  fs::path file() const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".packs") return entry.path();
    }
    return {};
  }

  std::string folder_;
  PackingSettings settings_;
};

void expect_equal(const PackedDataset& a, const PackedDataset& b) {
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
  EXPECT_EQ(a.summary().text(), b.summary().text());
  EXPECT_EQ(a.max_tokens(), b.max_tokens());
  ASSERT_EQ(a.size(), b.size());
  for (std::int64_t p = 0; p < *a.size(); ++p) {
    EXPECT_EQ(a.pack(p), b.pack(p));
    EXPECT_EQ(a.where(p, 0), b.where(p, 0));
  }
}

TEST_F(PackCacheTest, ASecondOpeningMakesNothingAndIsEqual) {
  int made = 0;
  const PackedDataset first = open(300, &made);
  EXPECT_EQ(made, 300);
  expect_equal(first, open(300, &made));
  EXPECT_EQ(made, 300);
}

TEST_F(PackCacheTest, OtherDataOrSettingsAreMadeAnew) {
  int made = 0;
  open(300, &made);
  open(301, &made);
  EXPECT_EQ(made, 601);
  settings_.shuffle = true;
  open(300, &made);
  EXPECT_EQ(made, 901);
}

TEST_F(PackCacheTest, ADamagedFileIsMadeAgain) {
  int made = 0;
  const PackedDataset first = open(300, &made);
  const auto bytes = fs::file_size(file());
  for (const std::uintmax_t cut : {bytes - 1, bytes / 2, std::uintmax_t{9}, std::uintmax_t{0}}) {
    fs::resize_file(file(), cut);
    made = 0;
    expect_equal(first, open(300, &made));
    EXPECT_EQ(made, 300) << cut;
  }
  std::fstream change(file(), std::ios::in | std::ios::out | std::ios::binary);
  change.seekp(static_cast<std::streamoff>(bytes / 2));
  change.put('\x5A');
  change.close();
  made = 0;
  expect_equal(first, open(300, &made));
  EXPECT_EQ(made, 300);
}

}  // namespace
}  // namespace glmtune::data
