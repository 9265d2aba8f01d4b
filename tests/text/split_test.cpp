#include "text/split.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/text_support.h"

namespace glmtune::text {
namespace {

const std::string kGlm = SmallTokenizer().regex;
const std::string kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";

using Words = std::vector<std::string>;

Words split(const std::string& regex, const std::string& text) {
  const auto splitter = Splitter::recognise(regex);
  EXPECT_TRUE(splitter.has_value());
  Words words;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t end = splitter->word_end(text, pos);
    EXPECT_GT(end, pos);
    words.push_back(text.substr(pos, end - pos));
    pos = end;
  }
  return words;
}

TEST(Split, WordsTakeOneCharacterBefore) {
  EXPECT_EQ(split(kGlm, "Hello, world (a)\tb_c"),
            (Words{"Hello", ",", " world", " (", "a", ")", "\tb", "_c"}));
  EXPECT_EQ(split(kGlm, "\nx"), (Words{"\n", "x"}));
}

TEST(Split, DigitsGoInGroups) {
  EXPECT_EQ(split(kGlm, "1234567 12"), (Words{"123", "456", "7", " ", "12"}));
  EXPECT_EQ(split(kQwen, "123"), (Words{"1", "2", "3"}));
  EXPECT_EQ(split(kGlm, "\u0661\u0662\u00BD\u216B"), (Words{"\u0661\u0662\u00BD", "\u216B"}));
}

TEST(Split, Contractions) {
  EXPECT_EQ(split(kGlm, "it's WE'RE I'll'd"), (Words{"it", "'s", " WE", "'RE", " I", "'ll", "'d"}));
  EXPECT_EQ(split(kGlm, "a'\u017Fb 'x"), (Words{"a", "'\u017F", "b", " '", "x"}));
  EXPECT_EQ(split(kGlm, "'sx"), (Words{"'s", "x"}));
}

TEST(Split, WhiteSpaceLeavesItsLastCharacterToTheNextWord) {
  EXPECT_EQ(split(kGlm, "a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(split(kGlm, "a  \n\n  b  "), (Words{"a", "  \n\n", " ", " b", "  "}));
  EXPECT_EQ(split(kGlm, "a \t1"), (Words{"a", " ", "\t", "1"}));
  EXPECT_EQ(split(kGlm, "!\r\n\r\n x"), (Words{"!\r\n\r\n", " x"}));
  EXPECT_EQ(split(kGlm, "\u00A0\u3000\u4E2D"), (Words{"\u00A0", "\u3000\u4E2D"}));
  EXPECT_EQ(split(kGlm, "\u180E\u200B"), (Words{"\u180E\u200B"}));  // neither is white space
}

TEST(Split, Cl100kKeepsTrailingWhiteSpaceTogether) {
  EXPECT_EQ(split(kGlm, "a\n  "), (Words{"a", "\n", "  "}));
  EXPECT_EQ(split(kCl100k, "a\n  "), (Words{"a", "\n  "}));
  EXPECT_EQ(split(kCl100k, "a\n  b"), (Words{"a", "\n", " ", " b"}));
}

TEST(Split, InvalidBytesAreOtherCharacters) {
  EXPECT_EQ(split(kGlm, "a\xFF\xC3z"), (Words{"a", "\xFF\xC3", "z"}));
}

TEST(Split, OnlyTheExactTextOfARegexIsRecognised) {
  EXPECT_FALSE(Splitter::recognise(kGlm + " "));
  EXPECT_FALSE(Splitter::recognise(""));
}

}  // namespace
}  // namespace glmtune::text
