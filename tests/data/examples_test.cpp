// The example data and the tiny model's text files, as the README's demo uses them.
#include <gtest/gtest.h>

#include "data/chat_row.h"
#include "data/rows.h"
#include "text/tokenizer.h"

namespace glmtune::data {
namespace {

const std::string kExamples = GLMTUNE_SOURCE "/examples/";

TEST(Examples, EveryConversationIsAcceptedAndEndsWithAnAnswer) {
  for (const char* name : {"chat/train.jsonl", "chat/val.jsonl"}) {
    const Rows rows({kExamples + name}, {});
    EXPECT_GE(rows.size(), 20);
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      const ChatRow row = read_chat_row(rows.row(i), rows.where(i));
      EXPECT_EQ(*row.messages.back().find("role"), io::Value("assistant")) << rows.where(i);
      EXPECT_TRUE(row.columns.empty()) << rows.where(i);
    }
  }
}

TEST(Examples, TheTokenizerFitsTheModelAndGivesTextsBack) {
  const auto tokenizer = text::Tokenizer::load(kExamples + "tiny");
  const auto config = io::read_json_file(kExamples + "tiny/config.json");
  EXPECT_EQ(tokenizer.vocab_size(), config.find("vocab_size")->as_int());
  const Rows rows({kExamples + "chat/train.jsonl"}, {});
  std::size_t bytes = 0;
  std::size_t tokens = 0;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const ChatRow row = read_chat_row(rows.row(i), rows.where(i));
    for (const io::Value& m : row.messages) {
      const std::string& text = m.find("content")->as_string();
      const auto encoding = tokenizer.encode(text);
      EXPECT_EQ(tokenizer.decode(encoding.ids), text);
      bytes += text.size();
      tokens += encoding.ids.size();
    }
  }
  EXPECT_GT(static_cast<double>(bytes), 2.5 * static_cast<double>(tokens));
}

}  // namespace
}  // namespace glmtune::data
