#include "nn/packed_row.h"

#include <gtest/gtest.h>

#include <string>

#include "support/message_of.h"
#include "support/tiny_model.h"

namespace glmtune::nn {
namespace {

using Ints = std::vector<std::int32_t>;

Ints values(const Tensor& t) {
  return {t.as<std::int32_t>(), t.as<std::int32_t>() + t.count()};
}

std::vector<std::pair<std::int64_t, std::int64_t>> pairs(const std::vector<RowRange>& ranges) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (const RowRange& r : ranges) out.emplace_back(r.begin, r.end);
  return out;
}
using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct Built {
  RowLayout layout;
  OwnedTensor memory;
  PackedRow row;

  Built(const Ints& ids, const Ints& labels, const Ints& cu, const AttentionSettings& settings)
      : layout(ids, labels, cu, 10, settings),
        row(layout.place(test::host_numbers(layout, memory))) {}
};

std::string error_of(const Ints& ids, const Ints& labels, const Ints& cu) {
  return test::message_of([&] { const Built built(ids, labels, cu, {.index_topk = 4}); });
}

TEST(AttentionPathChoice, FollowsTheLengthOfTheDocument) {
  const AttentionSettings s{.index_topk = 4, .masked_max_tokens = 8};
  EXPECT_EQ(choose_path(1, s), AttentionPath::kDense);
  EXPECT_EQ(choose_path(4, s), AttentionPath::kDense);
  EXPECT_EQ(choose_path(5, s), AttentionPath::kMasked);
  EXPECT_EQ(choose_path(8, s), AttentionPath::kMasked);
  EXPECT_EQ(choose_path(9, s), AttentionPath::kGather);
}

TEST(AttentionPathChoice, ForcedPathsLeaveShortDocumentsDenseUnlessAskedFor) {
  AttentionSettings s{.index_topk = 4, .force = true, .forced = AttentionPath::kGather};
  EXPECT_EQ(choose_path(4, s), AttentionPath::kDense);
  EXPECT_EQ(choose_path(5, s), AttentionPath::kGather);
  s.force_short = true;
  EXPECT_EQ(choose_path(1, s), AttentionPath::kGather);
}

TEST(PackedRow, PositionsRestartAndLabelsAreListed) {
  const Built b({1, 2, 3, 4, 5, 6}, {-100, 7, -100, 8, 9, -100}, {0, 4, 6}, {.index_topk = 4});
  EXPECT_EQ(b.row.tokens, 6);
  EXPECT_EQ(values(b.row.ids), (Ints{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(b.row.positions), (Ints{0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(b.row.labels, 3);
  EXPECT_EQ(values(b.row.label_rows), (Ints{1, 3, 4}));
  EXPECT_EQ(values(b.row.label_ids), (Ints{7, 8, 9}));
}

TEST(PackedRow, SortsItsDocumentsByPathAndJoinsNeighbouringExpandedRows) {
  // Lengths 2, 6, 9, 3, 5: dense, masked, gather, dense, masked.
  const Ints ids(25, 1), labels(25, -100);
  const Built b(ids, labels, {0, 2, 8, 17, 20, 25}, {.index_topk = 4, .masked_max_tokens = 8});
  EXPECT_EQ(values(b.row.dense.bounds), (Ints{0, 2, 17, 20}));
  EXPECT_EQ(b.row.dense.max_length, 3);
  EXPECT_EQ(values(b.row.masked.bounds), (Ints{2, 8, 20, 25}));
  EXPECT_EQ(b.row.masked_max_length, 6);
  EXPECT_EQ(pairs(b.row.gather), (Pairs{{8, 17}}));
  EXPECT_EQ(b.row.gather_rows, 9);
  EXPECT_EQ(pairs(b.row.selecting), (Pairs{{2, 8}, {20, 25}, {8, 17}}));
  EXPECT_EQ(pairs(b.row.expanded), (Pairs{{0, 8}, {17, 25}}));
  EXPECT_EQ(b.row.labels, 0);
}

TEST(PackedRow, RefusesWhatCannotBeARow) {
  EXPECT_NE(error_of({1, 2}, {1, 2}, {0, 3}).find("end at its 2 tokens"), std::string::npos);
  EXPECT_NE(error_of({1, 2}, {1, 2}, {0}).find("must start at 0"), std::string::npos);
  EXPECT_NE(error_of({1, 2}, {1, 2}, {0, 1, 1, 2}).find("entry 2 is 1 after 1"), std::string::npos);
  EXPECT_NE(error_of({1, 2}, {1}, {0, 2}).find("2 tokens but 1 labels"), std::string::npos);
  EXPECT_NE(error_of({1, 10}, {1, 2}, {0, 2}).find("token id 10 at row 1"), std::string::npos);
  EXPECT_NE(error_of({1, 2}, {-1, 2}, {0, 2}).find("label -1 at row 0"), std::string::npos);
}

}  // namespace
}  // namespace glmtune::nn
