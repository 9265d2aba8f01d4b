#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "text/bpe.h"
#include "text/text_support.h"

namespace glmtune::text {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr EncodeOptions kMatching{.match_added_tokens = true};

std::string message_of(const SmallTokenizer& t) {
  try {
    t.build();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::string message_of(const io::Value& v) {
  try {
    Tokenizer::parse(io::to_json(v), "", "small");
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Tokenizer, AValueOfAnotherTypeIsNamedByTokenOrPlace) {
  io::Value v = SmallTokenizer().value();
  v.find("model")->find("vocab")->set("q!q", 5.5);
  EXPECT_NE(message_of(v).find("token \"q!q\" has an id that is no whole number"),
            std::string::npos)
      << message_of(v);
  v = SmallTokenizer().value();
  v.find("model")->find("merges")->as_array()[2] = io::Value(5);
  EXPECT_NE(message_of(v).find("a value is of another type than expected near byte "),
            std::string::npos)
      << message_of(v);
}

TEST(Tokenizer, MergesByRankAndTakesWholeWords) {
  SmallTokenizer small;
  const Tokenizer t = small.build();
  // 256 he, 257 ll, 258 hell, 259 hello, 260 " hello"
  EXPECT_EQ(t.encode("hello hello").ids, (Ids{259, 260}));
  EXPECT_EQ(t.encode("hellx").ids, (Ids{258, 'x'}));
  EXPECT_EQ(t.encode("lll").ids, (Ids{257, 'l'}));  // of equal ranks the leftmost first
  EXPECT_EQ(t.encode("").ids, Ids{});
}

TEST(Tokenizer, IgnoreMergesTakesAWordThatNoMergeReaches) {
  SmallTokenizer small;
  small.whole_words = {" \xE7\x8E\x8B"};  // " 王": the case that is wrong without it
  EXPECT_EQ(small.build().encode(" \xE7\x8E\x8B").ids, (Ids{262}));
  small.ignore_merges = false;
  EXPECT_EQ(small.build().encode(" \xE7\x8E\x8B").ids, (Ids{' ', 0xE7, 0x8E, 0x8B}));
}

TEST(Tokenizer, MergesMayBeWrittenAsStrings) {
  SmallTokenizer small;
  small.merges_as_strings = true;
  EXPECT_EQ(small.build().encode("hello hello").ids, (Ids{259, 260}));
}

TEST(Tokenizer, AddedTokensAreMatchedOnlyWhereAsked) {
  const Tokenizer t = SmallTokenizer().build();
  // 262 <|user|>, 263 <|assistant|>, 264 <think>, 265 </think>, 266 <|user|>x
  EXPECT_EQ(t.encode("<|user|>hello<think>", kMatching).ids, (Ids{262, 259, 264}));
  EXPECT_EQ(t.encode("<|user|>xy", kMatching).ids, (Ids{266, 'y'}));  // the longest
  for (const std::int32_t id : t.encode("<|user|>hello<think>").ids) EXPECT_LT(id, 262);
}

TEST(Tokenizer, EncodesWhereAndCountsTheRest) {
  const Tokenizer t = SmallTokenizer().build();
  EncodeCache cache;
  const std::string text = "<|user|>a<|user|><think>";
  const ByteRange all[] = {{0, 4}, {4, 9}, {17, 24}};
  Encoding out;
  EXPECT_EQ(t.encode_where(text, all, cache, out), 1U);
  EXPECT_EQ(out.ids.front(), 262);
  EXPECT_EQ(out.ids.back(), 264);
  EXPECT_EQ(out.offsets.front(), (ByteRange{0, 8}));
  EXPECT_EQ(out.offsets.back(), (ByteRange{17, 24}));
  // A spelling that only begins in matchable text stays text.
  const ByteRange half[] = {{0, 4}};
  Encoding none;
  EXPECT_EQ(t.encode_where("<|user|>", half, cache, none), 1U);
  for (const std::int32_t id : none.ids) EXPECT_LT(id, 262);
  // Where the longest spelling is not allowed a shorter one that is matches.
  const ByteRange short_one[] = {{0, 8}};
  Encoding shorter;
  t.encode_where("<|user|>x", short_one, cache, shorter);
  EXPECT_EQ(shorter.ids, (Ids{262, 'x'}));
}

TEST(Tokenizer, AddedTokenFlags) {
  SmallTokenizer small;
  auto token = [](const char* content, const char* flag) {
    io::Value v = SmallTokenizer::added_token(content, false);
    v.set(flag, true);
    return v;
  };
  small.added = {token("<l>", "lstrip"), token("<r>", "rstrip"), token("word", "single_word")};
  const Tokenizer t = small.build();
  EXPECT_EQ(t.encode("a \n<l> b", kMatching).ids, (Ids{'a', 262, ' ', 'b'}));
  EXPECT_EQ(t.encode("a <r> \nb", kMatching).ids, (Ids{'a', ' ', 263, 'b'}));
  EXPECT_EQ(t.encode("a word", kMatching).ids, (Ids{'a', ' ', 264}));
  EXPECT_EQ(t.encode("words", kMatching).ids, (Ids{'w', 'o', 'r', 'd', 's'}));
}

// Here and in the next tests: ids and splits as the official library gives them.
TEST(Tokenizer, SingleWordTokensStandBesideNoWordCharacter) {
  SmallTokenizer small;
  small.added = {SmallTokenizer::added_token("word", false)};
  small.added[0].set("single_word", true);
  const Tokenizer t = small.build();
  const auto matches = [&](const std::string& text) {
    const Ids ids = t.encode(text, kMatching).ids;
    return std::find(ids.begin(), ids.end(), 262) != ids.end();
  };
  // A mark, the joiners, a letter number, a circled letter, a connector, a digit.
  for (const char* c :
       {"\u0301", "\u200C", "\u200D", "\u2160", "\u24B6", "\u203F", "\u0663", "_"}) {
    EXPECT_FALSE(matches(std::string("word") + c)) << c;
    EXPECT_FALSE(matches(std::string(c) + "word")) << c;
  }
  // A superscript, a fraction, a circled digit; symbols.
  for (const char* c : {"\u00B2", "\u00BD", "\u2460", "-", "\u200B", "\U0001F600"}) {
    EXPECT_TRUE(matches(std::string("word") + c)) << c;
    EXPECT_TRUE(matches(std::string(c) + "word")) << c;
  }
}

TEST(Tokenizer, APartOfAWordIsPassedOverWhole) {
  SmallTokenizer small;
  small.added = {SmallTokenizer::added_token("ab", false), SmallTokenizer::added_token("bc", false),
                 SmallTokenizer::added_token("a", false)};
  small.added[0].set("single_word", true);
  const Tokenizer t = small.build();
  EXPECT_EQ(t.encode("abc", kMatching).ids, (Ids{'a', 'b', 'c'}));
  EXPECT_EQ(t.encode("abbc", kMatching).ids, (Ids{'a', 'b', 263}));
  EXPECT_EQ(t.encode(" ab", kMatching).ids, (Ids{' ', 262}));
  EXPECT_EQ(t.encode("xab", kMatching).ids, (Ids{'x', 'a', 'b'}));
}

TEST(Tokenizer, SpaceTakenByRstripMayHoldTheNextToken) {
  for (const bool normalized : {false, true}) {
    SmallTokenizer small;
    small.added = {SmallTokenizer::added_token("<R>", false),
                   SmallTokenizer::added_token("\n\n", false),
                   SmallTokenizer::added_token("<L>", false)};
    small.added[0].set("rstrip", true);
    small.added[2].set("lstrip", true);
    for (io::Value& token : small.added) token.set("normalized", normalized);
    const Tokenizer t = small.build();
    EXPECT_EQ(t.encode("<R>\n\n", kMatching).ids, (Ids{262, 263}));
    const Encoding e = t.encode("<R> \n\n x", kMatching);
    EXPECT_EQ(e.ids, (Ids{262, 263, ' ', 'x'}));
    EXPECT_EQ(e.offsets, (std::vector<ByteRange>{{0, 4}, {4, 6}, {6, 7}, {7, 8}}));
    EXPECT_EQ(t.encode("a<R> \n\n \n\n", kMatching).ids, (Ids{'a', 262, 263, ' ', 263}));
    const Encoding both = t.encode("<R>  <L>", kMatching);
    EXPECT_EQ(both.ids, (Ids{262, 264}));
    EXPECT_EQ(both.offsets, (std::vector<ByteRange>{{0, 5}, {5, 8}}));
  }
}

TEST(Tokenizer, AnAddedWordOfTheVocabularyIsAlsoAnOrdinaryToken) {
  SmallTokenizer small;
  small.merges.insert(small.merges.end(), {{"w", "o"}, {"wo", "r"}, {"wor", "d"}});
  io::Value json = small.value();
  const auto with_added = [&](bool special, bool single_word, const char* content,
                              std::int32_t id) {
    io::Value word = SmallTokenizer::added_token(content, special);
    word.set("id", id);
    word.set("single_word", single_word);
    json.set("added_tokens", io::Value::Array{word});
    return Tokenizer::parse(io::to_json(json), "", "small");
  };
  // 262 wo, 263 wor, 264 word
  const Tokenizer t = with_added(false, true, "word", 264);
  EXPECT_EQ(t.encode("\uAC00word", kMatching).ids, (Ids{0xEA, 0xB0, 0x80, 264}));
  EXPECT_EQ(t.encode("words", kMatching).ids, (Ids{264, 's'}));
  EXPECT_EQ(t.encode("a word", kMatching).ids, (Ids{'a', ' ', 264}));
  EXPECT_EQ(t.encode("word").ids, (Ids{264}));
  // What is flagged special never comes out of ordinary text.
  EXPECT_EQ(with_added(true, false, "word", 264).encode("words").ids, (Ids{263, 'd', 's'}));
  EXPECT_EQ(with_added(true, false, "word", 264).encode("words", kMatching).ids, (Ids{264, 's'}));
}

TEST(Tokenizer, AMarkerOfTheVocabularyNeverComesOutOfOrdinaryText) {
  SmallTokenizer small;
  small.merges.insert(small.merges.end(), {{"<", "t"}, {"<t", ">"}});
  io::Value json = small.value();
  io::Value marker = SmallTokenizer::added_token("<t>", false);
  marker.set("id", 263);
  json.set("added_tokens", io::Value::Array{marker});
  const Tokenizer t = Tokenizer::parse(io::to_json(json), "", "small");
  EXPECT_EQ(t.encode("<t>", kMatching).ids, (Ids{263}));
  for (const std::int32_t id : t.encode("<t>").ids) EXPECT_NE(id, 263);
}

TEST(Tokenizer, OffsetsAreBytesOfTheText) {
  const Tokenizer t = SmallTokenizer().build();
  const Encoding e = t.encode("hello\xC3\xA9<think> hello", kMatching);
  EXPECT_EQ(e.ids, (Ids{259, 0xC3, 0xA9, 264, 260}));
  EXPECT_EQ(e.offsets, (std::vector<ByteRange>{{0, 5}, {5, 6}, {6, 7}, {7, 14}, {14, 20}}));
}

TEST(Tokenizer, NfcJoinsMarksAndKeepsOffsets) {
  SmallTokenizer small;
  small.normalizer = io::Value::Object{{"type", "NFC"}};
  const Tokenizer t = small.build();
  // e + U+0301 is é; the Hangul letters G A G are one syllable; a mark alone stays.
  const Encoding e = t.encode("xe\xCC\x81y");
  EXPECT_EQ(e.ids, (Ids{'x', 0xC3, 0xA9, 'y'}));
  EXPECT_EQ(e.offsets, (std::vector<ByteRange>{{0, 1}, {1, 4}, {1, 4}, {4, 5}}));
  const auto nfc = [&](const char* text) { return t.decode(t.encode(text).ids); };
  EXPECT_EQ(nfc("\u1100\u1161\u11A8"), "\uAC01");
  EXPECT_EQ(nfc("\uAC00\u11A8z"), "\uAC01z");
  EXPECT_EQ(nfc("\u0301"), "\u0301");
  EXPECT_EQ(nfc("a\u0301\u0323"), "\u1EA1\u0301");  // marks in their canonical order
  EXPECT_EQ(nfc("\u212B \u2126 \uF900"), "\u00C5 \u03A9 \u8C48");
  EXPECT_EQ(nfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(nfc("plain \u4E2D\u6587"), "plain \u4E2D\u6587");
}

TEST(Tokenizer, DecodeReplacesInvalidBytesAndSkipsSpecialTokens) {
  const Tokenizer t = SmallTokenizer().build();
  EXPECT_EQ(t.decode(Ids{'a', 0xE4, 0xB8, 'b'}), "a\uFFFDb");
  EXPECT_EQ(t.decode(Ids{0xE4, 0xB8, 0xAD}), "\u4E2D");
  EXPECT_EQ(t.decode(Ids{0xFF, 0xC3, 0x28}), "\uFFFD\uFFFD(");
  EXPECT_EQ(t.decode(Ids{0xF0, 0x9F, 0x98, 0xF0}), "\uFFFD\uFFFD");
  EXPECT_EQ(t.decode(Ids{0xED, 0xA0, 0x80}), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(t.decode(Ids{262, 259, 264}, {.skip_special_tokens = true}), "hello<think>");
  EXPECT_THROW(t.decode(Ids{267}), Error);
  EXPECT_THROW(t.decode(Ids{-1}), Error);
}

TEST(Tokenizer, KnowsItsTokens) {
  const io::Value config = io::Value::Object{
      {"eos_token", "<|user|>"}, {"pad_token", io::Value::Object{{"content", "<|assistant|>"}}}};
  const Tokenizer t =
      Tokenizer::parse(io::to_json(SmallTokenizer().value()), io::to_json(config), "small");
  EXPECT_EQ(t.vocab_size(), 267);
  EXPECT_EQ(t.token_id("hello"), 259);
  EXPECT_EQ(t.token_id("<think>"), 264);
  EXPECT_EQ(t.token_id("nothing"), std::nullopt);
  EXPECT_EQ(t.eos_token_id(), 262);
  EXPECT_EQ(t.pad_token_id(), 263);
  EXPECT_EQ(t.bos_token(), "");
  EXPECT_TRUE(t.added_token(262)->special);
  EXPECT_EQ(t.added_token(259), nullptr);
}

TEST(Tokenizer, WhatItDoesNotKnowIsAnErrorThatNamesIt) {
  SmallTokenizer small;
  small.regex = R"(\w+|\s+)";
  EXPECT_NE(message_of(small).find(R"(\w+|\s+)"), std::string::npos);
  small = {};
  small.normalizer = io::Value::Object{{"type", "NFKC"}};
  EXPECT_NE(message_of(small).find("NFKC"), std::string::npos);
  const auto with = [](const char* section, const char* key, const io::Value& v) {
    io::Value all = SmallTokenizer().value();
    all.find(section)->set(key, v);
    return message_of(all);
  };
  EXPECT_NE(with("model", "type", "WordPiece").find("WordPiece"), std::string::npos);
  EXPECT_NE(with("model", "dropout", 0.1).find("dropout"), std::string::npos);
  EXPECT_NE(with("model", "byte_fallback", true).find("byte_fallback"), std::string::npos);
  EXPECT_NE(with("decoder", "type", "Metaspace").find("Metaspace"), std::string::npos);
  EXPECT_NE(with("pre_tokenizer", "type", "Whitespace").find("Whitespace"), std::string::npos);
  io::Value all = SmallTokenizer().value();
  all.find("model")->find("merges")->as_array().emplace_back("q zz");
  EXPECT_NE(message_of(all).find("\"zz\""), std::string::npos);
  all = SmallTokenizer().value();
  all.find("model")->find("vocab")->set("\xE4\xB8\xAD", 300);
  EXPECT_NE(message_of(all).find("byte-level"), std::string::npos);
  all = SmallTokenizer().value();
  all.find("model")->find("vocab")->set("zz", 7);
  EXPECT_NE(message_of(all).find("twice"), std::string::npos);
  EXPECT_THROW(Tokenizer::parse("{", "", "broken"), Error);
  EXPECT_THROW(Tokenizer::parse("[]", "", "broken"), Error);
  EXPECT_THROW(Tokenizer::parse("{\"model\": 3}", "", "broken"), Error);
  EXPECT_THROW(Tokenizer::load("/nonexistent"), Error);
}

TEST(Tokenizer, AMissingByteIsAnErrorWhenTheTextHoldsIt) {
  io::Value all = SmallTokenizer().value();
  all.find("model")->find("vocab")->erase("q");
  const Tokenizer t = Tokenizer::parse(io::to_json(all), "", "small");
  EXPECT_EQ(t.encode("hello").ids, (Ids{259}));
  EXPECT_THROW(t.encode("quick"), Error);
}

// The definition of BPE: join the pair of lowest rank, leftmost first, until none is left.
std::vector<std::int32_t> plain_bpe(std::vector<std::int32_t> ids, const MergeTable& merges) {
  for (;;) {
    std::size_t best = 0;
    Merge merge{MergeTable::kNoRank, -1};
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merge m = merges.find(ids[i], ids[i + 1]);
      if (m.rank < merge.rank) {
        merge = m;
        best = i;
      }
    }
    if (merge.rank == MergeTable::kNoRank) return ids;
    ids[best] = merge.id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, ShortAndLongWordsAreMergedAlike) {
  std::mt19937 random(1);
  std::vector<std::int32_t> byte_ids(256);
  for (int i = 0; i < 256; ++i) byte_ids[static_cast<std::size_t>(i)] = i;
  for (int round = 0; round < 12; ++round) {
    // Merges among three letters and what came of them, each pair once.
    MergeTable merges;
    std::vector<std::int32_t> known = {'a', 'b', 'c'};
    for (std::uint32_t rank = 0; rank < 40; ++rank) {
      const std::int32_t left = known[random() % known.size()];
      const std::int32_t right = known[random() % known.size()];
      if (merges.find(left, right).rank != MergeTable::kNoRank) continue;
      const auto id = static_cast<std::int32_t>(1000 + rank);
      merges.add(left, right, {rank, id});
      known.push_back(id);
    }
    for (const std::size_t size : {1U, 2U, 7U, 48U, 256U, 257U, 600U}) {
      std::string word;
      std::vector<std::int32_t> ids;
      for (std::size_t i = 0; i < size; ++i) {
        word += static_cast<char>('a' + random() % 3);
        ids.push_back(word.back());
      }
      MergeScratch scratch;
      std::vector<WordToken> out;
      EXPECT_EQ(merge_word(word, byte_ids, merges, scratch, out), -1);
      std::vector<std::int32_t> got;
      std::size_t bytes = 0;
      for (const WordToken& t : out) {
        got.push_back(t.id);
        bytes += t.length;
      }
      EXPECT_EQ(got, plain_bpe(ids, merges));
      EXPECT_EQ(bytes, size);
    }
  }
}

TEST(Bpe, AVeryLongWordTakesNoTimeAtAll) {
  const Tokenizer t = SmallTokenizer().build();
  const Encoding e = t.encode(std::string(1 << 20, 'l'));
  EXPECT_EQ(e.ids.size(), std::size_t(1) << 19);
}

}  // namespace
}  // namespace glmtune::text
