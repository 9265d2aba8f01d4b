#include "data/pretokenized_dataset.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "data/dataset.h"
#include "io/safetensors.h"

namespace glmtune::data {
namespace {

constexpr std::int32_t X = kNoLabel;

struct Named {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> values;
};

class Pretokenized : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "pretokenized_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write(const std::vector<Named>& tensors) {
    std::vector<io::TensorInfo> infos;
    for (const Named& t : tensors) infos.push_back({t.name, DType::kI64, t.shape, 0});
    io::SafetensorsWriter writer(path_, infos);
    for (const Named& t : tensors) writer.append(t.values.data(), t.values.size() * 8);
    writer.finish();
  }

  std::string error() {
    try {
      PretokenizedDataset data({path_}, 10);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  std::string path_;
};

// user_reports.md 20: exactly one shift; the label at position t is token t + 1.
TEST_F(Pretokenized, HuggingFaceLabelsAreShiftedOncePerRow) {
  write({{"input_ids", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"labels", {2, 3}, {1, 2, 3, 4, -100, 6}}});
  const PretokenizedDataset data({path_}, 10);
  EXPECT_EQ(data.pack(0).ids, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(data.pack(0).labels, (std::vector<std::int32_t>{2, 3, X}));
  EXPECT_EQ(data.pack(1).labels, (std::vector<std::int32_t>{X, 6, X}));
  EXPECT_EQ(data.summary().label_tokens, 3);
  EXPECT_EQ(data.max_tokens(), 3);
  EXPECT_EQ(data.most_documents(), 1);
}

TEST_F(Pretokenized, RowsComeInOrderAndRepeatWithoutEnd) {
  write({{"input_ids", {2, 2}, {1, 2, 3, 4}}, {"shifted_labels", {2, 2}, {2, -100, 4, -100}}});
  const PretokenizedDataset data({path_}, 10);
  EXPECT_FALSE(data.size());
  EXPECT_FALSE(data.may_shuffle());
  EXPECT_EQ(data.pack(0), data.pack(2));
  EXPECT_EQ(data.pack(1).ids, (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(data.pack(7), data.pack(1));
}

TEST_F(Pretokenized, CuSeqlensMakeARowAPackAndLabelsStayInsideDocuments) {
  write({{"input_ids", {5}, {1, 2, 3, 4, 5}},
         {"labels", {5}, {1, 2, 3, 4, 5}},
         {"cu_seqlens", {3}, {0, 3, 5}}});
  const PretokenizedDataset data({path_}, 10);
  EXPECT_EQ(data.pack(0).bounds, (std::vector<std::int32_t>{0, 3, 5}));
  EXPECT_EQ(data.pack(0).labels, (std::vector<std::int32_t>{2, 3, X, 5, X}));
}

TEST_F(Pretokenized, WhatIsWrongInTheFileIsNamed) {
  write({{"input_ids", {2}, {1, 2}}});
  EXPECT_NE(error().find("either labels or shifted_labels"), std::string::npos) << error();
  write({{"input_ids", {2}, {1, 10}}, {"labels", {2}, {1, 2}}});
  EXPECT_NE(error().find("token 1 has id 10"), std::string::npos) << error();
  write({{"input_ids", {2}, {1, 2}}, {"labels", {1, 2}, {1, 2}}});
  EXPECT_NE(error().find("must be the same"), std::string::npos) << error();
  write({{"input_ids", {3}, {1, 2, 3}}, {"labels", {3}, {1, 2, 3}}, {"cu_seqlens", {2}, {0, 2}}});
  EXPECT_NE(error().find("document bounds"), std::string::npos) << error();
  write({{"input_ids", {2}, {1, 2}}, {"labels", {2}, {-100, -100}}});
  EXPECT_NE(error().find("nothing to train on"), std::string::npos) << error();
  path_ += ".missing";
  EXPECT_NE(error().find("missing"), std::string::npos) << error();
}

TEST_F(Pretokenized, ReadsTheGoldenReferences) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  const std::string golden = std::string(shared) + "/golden/";
  const PretokenizedDataset packed({golden + "packed/golden.safetensors"}, 320);
  EXPECT_EQ(packed.pack(0).bounds, (std::vector<std::int32_t>{0, 17, 20, 49, 60}));
  EXPECT_EQ(packed.pack(0).label_tokens(), 56);
  const PretokenizedDataset rows({golden + "indexshare/golden.safetensors"}, 320);
  EXPECT_EQ(rows.pack(0).tokens(), 40);
  EXPECT_EQ(rows.pack(0).label_tokens(), 35);
}

}  // namespace
}  // namespace glmtune::data
