#include "data/prepacked_dataset.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "data/dataset.h"

namespace glmtune::data {
namespace {

class Prepacked : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "prepacked_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
    settings_.paths = {path_};
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void rows(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::unique_ptr<PackSource> open(std::int64_t size = 0) {
    return open_dataset(settings_,
                        {.packed_sequence_size = size, .max_packs = {}, .prepacked = true},
                        {.tokenizer = {}, .chat_template = {}, .vocab_size = 100});
  }
  std::string error(const std::string& text, std::int64_t size = 0) {
    rows(text);
    try {
      open(size);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }

  std::string path_;
  ChatSettings settings_;
};

// recipes.md 1.6, packed_sequence.prepacked: the second row's last two tokens are padding.
TEST_F(Prepacked, RowsArePacksAndPaddingIsLeftOut) {
  rows(
      "{\"input_ids\": [1, 2, 3], \"labels\": [2, 3, -100]}\n"
      "{\"input_ids\": [4, 5, 6, 7, 0, 0], \"labels\": [5, -100, 7, 9, -100, -100], "
      "\"seq_lens\": [2, 2], \"position_ids\": [0, 1, 0, 1, 2, 3]}\n");
  const auto source = open(6);
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(source->pack(0).bounds, (std::vector<std::int32_t>{0, 3}));
  const Pack second = source->pack(1);
  EXPECT_EQ(second.ids, (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(second.labels, (std::vector<std::int32_t>{5, kNoLabel, 7, 9}));
  EXPECT_EQ(second.bounds, (std::vector<std::int32_t>{0, 2, 4}));
  EXPECT_EQ(source->max_tokens(), 4);
  EXPECT_EQ(source->most_documents(), 2);
  EXPECT_EQ(source->summary().label_tokens, 5);
  EXPECT_EQ(source->summary().samples, 3);
  EXPECT_EQ(source->where(1, 0), path_ + ":2");
}

// recipes.md section 5, 7: [[3, 2], [2, 3]] padded to [[4, 2], [3, 3]]. A document's own padding
// is no part of a pack either.
TEST_F(Prepacked, PaddingInsideAPackIsLeftOut) {
  rows(
      "{\"input_ids\": [1, 2, 3, 0, 4, 5], \"labels\": [2, 3, -100, -100, 5, -100], "
      "\"seq_lens\": [3, 2], \"seq_lens_padded\": [4, 2]}\n"
      "{\"input_ids\": [6, 7, 0, 8, 9, 10], \"labels\": [7, -100, -100, 9, 10, -100], "
      "\"seq_lens\": [2, 3], \"seq_lens_padded\": [3, 3]}\n");
  const auto source = open(6);
  Pack batch = source->pack(0);
  batch.append(source->pack(1));
  EXPECT_EQ(batch.ids, (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(batch.bounds, (std::vector<std::int32_t>{0, 3, 5, 7, 10}));
  EXPECT_EQ(batch.labels,
            (std::vector<std::int32_t>{2, 3, kNoLabel, 5, kNoLabel, 7, kNoLabel, 9, 10, kNoLabel}));
}

TEST_F(Prepacked, ARowThatIsNoPackIsNamed) {
  const auto names = [&](const std::string& text, const std::string& part, std::int64_t size = 0) {
    const std::string found = error(text + "\n", size);
    EXPECT_NE(found.find(path_ + ":1"), std::string::npos) << found;
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  names(R"({"messages": []})", "input_ids is missing");
  names(R"({"input_ids": [1, 2]})", "labels is missing");
  names(R"({"input_ids": [1, 2], "labels": [2]})", "1 labels for 2 input_ids");
  names(R"({"input_ids": [1, "a"], "labels": [2, -100]})", "input_ids[1]: expected an integer");
  names(R"({"input_ids": [1, 2], "labels": [2, -100], "seq_lens": [3]})", "seq_lens");
  names(R"({"input_ids": [1, 2], "labels": [2, -100], "seq_lens": [0, 2]})", "seq_lens");
  names(R"({"input_ids": [1, 2], "labels": [2, -100], "seq_lens": [2], "seq_lens_padded": [1]})",
        "a document of 2 tokens in 1");
  names(R"({"input_ids": [1, 2], "labels": [2, -100], "seq_lens": [1], "seq_lens_padded": [3]})",
        "does not fit the row's 2");
  names(R"({"input_ids": [1, 2], "labels": [2, -100], "seq_lens": [2], "seq_lens_padded": []})",
        "0 seq_lens_padded for 1 seq_lens");
  names(R"({"input_ids": [1, 200], "labels": [2, -100]})", "200");
  names(R"({"input_ids": [1, 2, 3], "labels": [2, 3, -100]})", "packed_sequence_size 2", 2);
  names(R"({"input_ids": [1, 2], "labels": [-100, -100]})", "nothing to train on");
}

}  // namespace
}  // namespace glmtune::data
