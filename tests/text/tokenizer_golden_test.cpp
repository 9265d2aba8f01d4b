// Against the official tokenizers library: 710 texts for each of three tokenizers.
#include "text/text_support.h"

namespace glmtune::text {
namespace {

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, IdsAndDecodedTextsEqualTheOfficialLibrary) {
  GLMTUNE_NEEDS_SHARED();
  const std::string name = GetParam();
  const std::string folder = "data/tokenizers/" + name;
  const Tokenizer tokenizer =
      Tokenizer::parse(read_shared(folder + "/tokenizer.json"),
                       read_shared(folder + "/tokenizer_config.json"), folder);
  const auto rows = read_shared_lines("data/tokenizers/golden/" + name + ".jsonl");
  EXPECT_EQ(rows.size(), 710U);
  EncodeCache cache;
  int wrong = 0;
  for (const io::Value& row : rows) {
    const std::string& text = row.find("text")->as_string();
    Encoding got;
    tokenizer.encode(text, {.match_added_tokens = true}, cache, got);
    std::vector<std::int32_t> want;
    for (const io::Value& id : row.find("ids")->as_array()) {
      want.push_back(static_cast<std::int32_t>(id.as_int()));
    }
    const auto expected = [&](const char* key, const std::string& otherwise) {
      const io::Value* v = row.find(key);
      return v == nullptr ? otherwise : v->as_string();
    };
    const std::string decoded = expected("decoded", text);
    const bool ok = got.ids == want && tokenizer.decode(want) == decoded &&
                    tokenizer.decode(want, {.skip_special_tokens = true}) ==
                        expected("decoded_skip_special", decoded);
    if (!ok && ++wrong < 10) {
      ADD_FAILURE() << text << "\n got " << testing::PrintToString(got.ids) << "\nwant "
                    << testing::PrintToString(want) << "\n"
                    << tokenizer.decode(want);
    }
    // The offsets cover the text without gaps.
    std::size_t reached = 0;
    for (const ByteRange& r : got.offsets) {
      EXPECT_LE(r.begin, reached);
      reached = std::max(reached, r.end);
    }
    EXPECT_EQ(reached, text.size());
  }
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden, testing::Values("glm5-like", "glm5-tiny", "qwen3"));

}  // namespace
}  // namespace glmtune::text
