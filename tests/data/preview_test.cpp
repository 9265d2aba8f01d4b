#include "data/preview.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "text/tokenizer.h"

namespace glmtune::data {
namespace {

class Preview : public ::testing::Test {
 protected:
  // A document of `text`, the tokens from `first` on trained on.
  Pack document(const std::string& text, std::size_t first, std::int32_t stop = kNoLabel) const {
    Pack pack;
    pack.ids = tokenizer_.encode(text).ids;
    pack.labels.assign(pack.ids.size(), kNoLabel);
    for (std::size_t t = std::max<std::size_t>(first, 1); t < pack.ids.size(); ++t) {
      pack.labels[t - 1] = pack.ids[t];
    }
    pack.labels.back() = stop;
    pack.bounds.push_back(static_cast<std::int32_t>(pack.ids.size()));
    return pack;
  }

  text::Tokenizer tokenizer_ = text::Tokenizer::load(GLMTUNE_SOURCE "/examples/tiny");
};

TEST_F(Preview, TargetsAreBracketedAndTheStopComesLast) {
  const Pack pack = document("a b", 1, *tokenizer_.token_id("<|user|>"));
  EXPECT_EQ(preview_document(pack, 0, &tokenizer_, {}), "a⟦ b⟧ then ⟦<|user|>⟧");
}

TEST_F(Preview, CharactersOfSeveralTokensStayWhole) {
  const std::string text = "水 and 火";
  const Pack pack = document(text, 0);
  ASSERT_GT(pack.tokens(), 6);
  for (std::size_t first = 1; first < pack.ids.size(); ++first) {
    std::string shown = preview_document(document(text, first), 0, &tokenizer_, {});
    for (const std::string mark : {"⟦", "⟧"}) {
      if (const std::size_t at = shown.find(mark); at != std::string::npos) {
        shown.erase(at, mark.size());
      }
    }
    EXPECT_EQ(shown, text);
  }
}

TEST_F(Preview, ControlCharactersDoNotReachTheTerminal) {
  const std::string shown = preview_document(document("a\x1b[31mb", 0), 0, &tokenizer_, {});
  EXPECT_EQ(shown.find('\x1b'), std::string::npos);
  EXPECT_NE(shown.find("\\x1b[31m"), std::string::npos) << shown;
}

// U+009B begins a command as ESC [ does.
TEST_F(Preview, NorDoThoseOfTheSecondSet) {
  const Pack pack = document(
      "a\xC2\x9B"
      "31mb",
      0);
  for (const std::string& shown :
       {preview_document(pack, 0, &tokenizer_, {}), preview_tokens(pack, 0, &tokenizer_, {})}) {
    EXPECT_EQ(shown.find("\xC2\x9B"), std::string::npos);
    EXPECT_NE(shown.find("\\x9b"), std::string::npos) << shown;
  }
}

TEST_F(Preview, ColourEndsBeforeEveryLineEnd) {
  const std::string shown =
      preview_document(document("one\ntwo\n\nthree", 1), 0, &tokenizer_, {.color = true});
  EXPECT_NE(shown.find("\x1b[30;42m"), std::string::npos);
  for (std::size_t at = shown.find('\n'); at != std::string::npos; at = shown.find('\n', at + 1)) {
    EXPECT_EQ(shown.substr(at - 4, 4), "\x1b[0m");
  }
}

TEST_F(Preview, TokensAreShownOneALineWithTheirIds) {
  const std::int32_t stop = *tokenizer_.token_id("<|user|>");
  const Pack pack = document("a\n\xE6\xB0\xB4", 1, stop);
  const std::string shown = preview_tokens(pack, 0, &tokenizer_, {});
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), pack.tokens() + 1) << shown;
  EXPECT_TRUE(shown.starts_with("       0 ")) << shown;
  EXPECT_NE(shown.find("  \"a\"\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("+  \"\\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find(std::to_string(stop) + "  +  \"<|user|>\"\n"), std::string::npos) << shown;
  EXPECT_TRUE(preview_tokens(pack, 0, &tokenizer_, {.max_tokens = 1}).ends_with("tokens more\n"));
}

TEST_F(Preview, LongDocumentsAreCutAndIdsAreShownWithoutATokenizer) {
  const Pack pack = document("0 1 2 3 4 5", 1);
  const std::string cut = preview_document(pack, 0, &tokenizer_, {.max_tokens = 2});
  EXPECT_NE(cut.find("tokens more"), std::string::npos) << cut;
  Pack ids;
  ids.ids = {7, 8};
  ids.labels = {8, kNoLabel};
  ids.bounds = {0, 2};
  EXPECT_EQ(preview_document(ids, 0, nullptr, {}), "7 ⟦8 ⟧");
}

}  // namespace
}  // namespace glmtune::data
