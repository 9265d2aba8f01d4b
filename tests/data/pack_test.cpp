#include "data/pack.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace glmtune::data {
namespace {

Pack document(std::vector<std::int32_t> ids) {
  Pack p;
  p.ids = std::move(ids);
  p.labels.assign(p.ids.begin() + 1, p.ids.end());
  p.labels.push_back(kNoLabel);
  p.bounds.push_back(static_cast<std::int32_t>(p.ids.size()));
  return p;
}

// user_reports.md 23: the last token of a document never learns the first of the next.
TEST(Pack, AppendedDocumentsKeepTheirOwnLabels) {
  Pack p = document({1, 2, 3});
  p.append(document({4, 5}));
  EXPECT_EQ(p.ids, (std::vector<std::int32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(p.labels, (std::vector<std::int32_t>{2, 3, kNoLabel, 5, kNoLabel}));
  EXPECT_EQ(p.bounds, (std::vector<std::int32_t>{0, 3, 5}));
  EXPECT_EQ(p.documents(), 2);
  EXPECT_EQ(p.label_tokens(), 3);
}

// recipes.md section 5, 7: the bounds of several packs are those of their documents' real lengths,
// one after the other. AutoModel's second, padded array and the last document widened over the
// pack's tail have no counterpart, as there is no padding: the longest of five documents of 112
// tokens in a pack of 1024 has 112.
TEST(Pack, BoundsOfAppendedPacksAreThoseOfTheRealDocuments) {
  const auto of = [](const std::vector<std::size_t>& lengths) {
    Pack pack;
    for (const std::size_t n : lengths) pack.append(document(std::vector<std::int32_t>(n, 1)));
    return pack;
  };
  Pack batch = of({3, 2});
  batch.append(of({2, 3}));
  EXPECT_EQ(batch.bounds, (std::vector<std::int32_t>{0, 3, 5, 7, 10}));
  const Pack five = of({112, 112, 112, 112, 112});
  EXPECT_EQ(five.bounds, (std::vector<std::int32_t>{0, 112, 224, 336, 448, 560}));
  EXPECT_EQ(five.tokens(), 560);
}

TEST(Pack, IdsBeyondTheVocabularyAreNamed) {
  const Pack p = document({7, 1, 2});
  EXPECT_NO_THROW(check_pack(p, 8, "f:1"));
  try {
    check_pack(p, 7, "f:1");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("f:1: token 0 has id 7"), std::string::npos) << e.what();
  }
}

TEST(Pack, BoundsMustCoverTheTokensAndIncrease) {
  Pack p = document({1, 2, 3});
  p.bounds = {0, 2, 2, 3};
  EXPECT_THROW(check_pack(p, 8, "f"), Error);
  p.bounds = {0, 2};
  EXPECT_THROW(check_pack(p, 8, "f"), Error);
}

TEST(DataSummary, ListsReasonsAndShares) {
  DataSummary s;
  s.rows = 12;
  s.samples = 10;
  s.packs = 2;
  s.pack_size = 1000;
  s.tokens = 1500;
  s.label_tokens = 600;
  s.longest = 400;
  add_count(s.dropped, "no assistant turn");
  add_count(s.dropped, "no assistant turn");
  s.length_histogram = {0, 0, 0, 4, 6};
  const std::string text = s.text();
  EXPECT_NE(text.find("packs 2 of 1,000 (75.0 % filled)"), std::string::npos) << text;
  EXPECT_NE(text.find("trained on 600 (40.0 %)"), std::string::npos) << text;
  EXPECT_NE(text.find("dropped 2: no assistant turn"), std::string::npos) << text;
  EXPECT_NE(text.find("16-31"), std::string::npos) << text;
}

}  // namespace
}  // namespace glmtune::data
