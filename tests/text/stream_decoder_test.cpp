#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace glmtune::text {
namespace {

const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::load(GLMTUNE_SOURCE "/examples/tiny");
  return tokenizer;
}

TEST(StreamDecoder, ACharacterOfSeveralTokensComesWhenItIsComplete) {
  const auto ids = tiny().encode("a火b").ids;
  StreamDecoder decoder(tiny());
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) pieces.push_back(decoder.push(id));
  EXPECT_EQ(pieces.front(), "a");
  EXPECT_EQ(pieces.back(), "b");
  EXPECT_EQ(std::count(pieces.begin(), pieces.end(), ""), std::ptrdiff_t(ids.size()) - 3);
  EXPECT_FALSE(decoder.unfinished());
}

TEST(StreamDecoder, WhatIsLeftUnfinishedIsAReplacementCharacter) {
  const auto ids = tiny().encode("火").ids;
  ASSERT_GT(ids.size(), 1u);
  StreamDecoder decoder(tiny());
  EXPECT_EQ(decoder.push(ids[0]), "");
  EXPECT_TRUE(decoder.unfinished());
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, SpecialTokensAreSkippedOnRequest) {
  StreamDecoder decoder(tiny(), {.skip_special_tokens = true});
  EXPECT_EQ(decoder.push(*tiny().token_id("<|user|>")), "");
  EXPECT_EQ(decoder.push(*tiny().token_id("<think>")), "<think>");
  EXPECT_THROW(decoder.push(1 << 20), Error);
}

// Any ids in any order, whose bytes are mostly no text at all.
TEST(StreamDecoder, PiecesPutTogetherAreTheDecodedWhole) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 60; ++i)
      ids.push_back(static_cast<std::int32_t>(
          random() % static_cast<unsigned>(round % 2 == 0 ? 256 : tiny().vocab_size())));
    for (const bool skip : {false, true}) {
      StreamDecoder decoder(tiny(), {.skip_special_tokens = skip});
      std::string text;
      for (const std::int32_t id : ids) text += decoder.push(id);
      text += decoder.finish();
      EXPECT_EQ(text, tiny().decode(ids, {.skip_special_tokens = skip})) << round;
    }
  }
}

}  // namespace
}  // namespace glmtune::text
