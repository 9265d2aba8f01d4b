#include "data/text_dataset.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/cat.h"
#include "base/error.h"
#include "data/dataset.h"
#include "data/preview.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace glmtune::data {
namespace {

const std::string kTiny = GLMTUNE_SOURCE "/examples/tiny";

class TextData : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "text_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
    tokenizer_ = std::make_shared<text::Tokenizer>(text::Tokenizer::load(kTiny));
    tools_ = {tokenizer_, std::make_shared<text::ChatTemplate>(text::ChatTemplate::load(kTiny)),
              1024};
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void rows(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }

  std::unique_ptr<PackSource> open(const DatasetSettings& settings) {
    return open_dataset(settings, {.packed_sequence_size = 0, .max_packs = {}}, tools_);
  }
  std::string shown(const DatasetSettings& settings) {
    return preview_document(open(settings)->pack(0), 0, tokenizer_.get(), {});
  }
  std::string error(const DatasetSettings& settings) {
    try {
      open(settings);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }

  std::string path_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  TextTools tools_;
};

TEST_F(TextData, AFileThatIsNamedTwiceIsReadTwiceAndSaidOnce) {
  rows("{\"ctx\": \"A man sits\", \"endings\": [\" up.\", \" down.\"], \"label\": \"1\"}\n");
  std::vector<std::string> said;
  const auto source =
      open_dataset(HellaSwagSettings{.paths = {path_, path_}, .rows = {}},
                   {.packed_sequence_size = 0, .max_packs = {}}, tools_,
                   {.rows = {}, .notice = [&](const std::string& text) { said.push_back(text); }});
  EXPECT_EQ(source->summary().rows, 2);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_TRUE(said[0].starts_with(path_ + " is named more than once")) << said[0];
}

// recipes.md section 5, 8.
TEST_F(TextData, HellaSwagLabelsAreTheRightEnding) {
  rows(
      "{\"ctx\": \"A man sits\", \"endings\": [\" up.\", \" down.\"], \"label\": \"1\"}\n"
      "{\"ctx\": \"No\", \"endings\": [\"a\"], \"label\": \"\"}\n");
  const HellaSwagSettings settings{.paths = {path_}, .rows = {}};
  const auto source = open(settings);
  const auto ctx = tokenizer_->encode("A man sits").ids;
  const auto target = tokenizer_->encode(" down.").ids;
  std::vector<std::int32_t> labels(ctx.size() - 1, kNoLabel);
  labels.insert(labels.end(), target.begin(), target.end());
  labels.push_back(kNoLabel);
  EXPECT_EQ(source->pack(0).labels, labels);
  EXPECT_EQ(source->size(), 1);
  EXPECT_NE(source->summary().text().find("dropped 1: no label"), std::string::npos);
}

TEST_F(TextData, HellaSwagRowsOfAnotherShapeAreNamed) {
  const HellaSwagSettings settings{.paths = {path_}, .rows = {}};
  rows("{\"ctx\": \"A\", \"endings\": [\"b\"], \"label\": \"1\"}\n");
  EXPECT_NE(error(settings).find(":1: column \"label\""), std::string::npos) << error(settings);
  rows("{\"text\": \"A\"}\n");
  EXPECT_NE(error(settings).find("column \"ctx\" is missing"), std::string::npos)
      << error(settings);
}

TEST_F(TextData, SquadTrainsOnTheAnswerAndDropsUnanswerableRows) {
  rows(
      "{\"context\": \"Rome is old.\", \"question\": \"What is old?\", \"answers\": {\"text\": "
      "[\" Rome \"]}}\n{\"context\": \"a\", \"question\": \"b\", \"answers\": {\"text\": []}}\n");
  SquadSettings settings;
  settings.paths = {path_};
  EXPECT_EQ(shown(settings),
            "Context: Rome is old. Question: What is old? Answer: ⟦Rome⟧ then ⟦<|endoftext|>⟧");
  EXPECT_EQ(open(settings)->size(), 1);
  // One user turn where there is a chat template, as in the recipe language's own.
  settings.use_chat_template = true;
  EXPECT_EQ(shown(settings),
            "[gMASK]<sop><|user|>Context: Rome is old. Question: What is old? Answer: <|assistant|>"
            "<think>⟦</think>Rome⟧ then ⟦<|user|>⟧");
  settings.chat_template =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  EXPECT_EQ(shown(settings),
            "<|user|>Context: Rome is old. Question: What is old? Answer: <|assistant|>"
            "⟦Rome⟧ then ⟦<|user|>⟧");
  settings.chat_template.clear();
  tools_.chat_template = nullptr;
  EXPECT_EQ(shown(settings),
            "Context: Rome is old. Question: What is old? Answer: ⟦Rome⟧ then ⟦<|endoftext|>⟧");
}

TEST_F(TextData, MappedColumnsBecomePromptAndAnswer) {
  rows("{\"instr\": \"Add\", \"in\": \"1 and 2\", \"out\": 3}\n");
  ColumnMappedSettings settings;
  settings.paths = {path_};
  settings.column_mapping = {{"context", "in"}, {"question", "instr"}, {"answer", "out"}};
  EXPECT_EQ(shown(settings), "1 and 2 Add ⟦3⟧ then ⟦<|endoftext|>⟧");
  settings.answer_only_loss_mask = false;
  EXPECT_TRUE(shown(settings).ends_with("Add 3⟧ then ⟦<|endoftext|>⟧")) << shown(settings);
  settings.column_mapping = {{"answer", "nope"}, {"question", "instr"}};
  EXPECT_NE(error(settings).find("column \"nope\" is missing"), std::string::npos);
  settings.column_mapping = {{"reply", "out"}};
  EXPECT_NE(error(settings).find("column_mapping.reply"), std::string::npos);
  settings.column_mapping = {{"question", "instr"}};
  EXPECT_NE(error(settings).find("needs answer"), std::string::npos);
}

// user_reports.md 17: nothing that users wrote becomes a control token, which the summary counts.
TEST_F(TextData, SpellingsOfControlTokensAreCounted) {
  rows("{\"in\": \"a <|user|> b\", \"out\": \"c<|endoftext|>\"}\n");
  ColumnMappedSettings settings;
  settings.paths = {path_};
  settings.column_mapping = {{"question", "in"}, {"answer", "out"}};
  const std::string text = open(settings)->summary().text();
  EXPECT_NE(text.find("spellings of control tokens in texts, encoded as ordinary text: 2"),
            std::string::npos)
      << text;
}

// Only chats refuse such integers in columns of these names.
TEST_F(TextData, MappedIntegersKeepTheirDigitsUnderTheNamesOfChats) {
  rows("{\"messages\": \"2^80?\", \"tools\": 1208925819614629174706176}\n");
  ColumnMappedSettings settings;
  settings.paths = {path_};
  settings.column_mapping = {{"question", "messages"}, {"answer", "tools"}};
  EXPECT_EQ(error(settings), "accepted");
  settings.use_hf_chat_template = true;
  EXPECT_EQ(error(settings), "accepted");
}

TEST_F(TextData, AMissingColumnOfAParquetFileIsNamedWithAllItHas) {
  ColumnMappedSettings settings;
  settings.paths = {GLMTUNE_SOURCE "/tests/fixtures/parquet/chat.beside_unreadable.parquet"};
  settings.column_mapping = {{"question", "nope"}, {"answer", "out"}};
  EXPECT_NE(error(settings).find("column \"nope\" is missing; the row's columns: messages, raw, "
                                 "price, at, packed, emb"),
            std::string::npos)
      << error(settings);
}

// As str() of what Python's json gives.
TEST_F(TextData, MappedIntegersOfAnySizeKeepTheirDigits) {
  rows("{\"q\": \"2^80?\", \"a\": 1208925819614629174706176}\n");
  ColumnMappedSettings settings;
  settings.paths = {path_};
  settings.column_mapping = {{"question", "q"}, {"answer", "a"}};
  EXPECT_TRUE(shown(settings).find("⟦1208925819614629174706176⟧") != std::string::npos)
      << shown(settings);
  settings.use_hf_chat_template = true;
  EXPECT_TRUE(shown(settings).find("1208925819614629174706176⟧") != std::string::npos)
      << shown(settings);
}

// recipes.md 1.6, use_hf_chat_template: the model's template, trained on the answer alone.
TEST_F(TextData, MappedColumnsBecomeAConversationOnRequest) {
  rows("{\"instr\": \"Add\", \"in\": \"1 and 2\", \"out\": \"3\"}\n");
  ColumnMappedSettings settings;
  settings.paths = {path_};
  settings.column_mapping = {{"context", "in"}, {"question", "instr"}, {"answer", "out"}};
  settings.use_hf_chat_template = true;
  EXPECT_TRUE(shown(settings).ends_with("Add<|assistant|><think>⟦</think>3⟧ then ⟦<|user|>⟧"))
      << shown(settings);
  settings.answer_only_loss_mask = false;
  EXPECT_NE(error(settings).find("answer_only_loss_mask"), std::string::npos) << error(settings);
}

TEST_F(TextData, MockRowsAreAFunctionOfSeedAndNumber) {
  const MockSettings settings{.vocab_size = 50, .seq_len = 8, .num_samples = 3};
  const auto source = open(settings);
  EXPECT_EQ(source->size(), 3);
  const Pack pack = source->pack(2);
  EXPECT_EQ(pack, open(settings)->pack(2));
  EXPECT_NE(pack, source->pack(1));
  EXPECT_NO_THROW(check_pack(pack, 50, "mock"));
  EXPECT_EQ(pack.label_tokens(), 7);
}

TEST_F(TextData, ReadsTheSampleFilesOfBothSchemas) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  const std::string eval = std::string(shared) + "/data/eval/";
  HellaSwagSettings hellaswag;
  hellaswag.paths = {eval + "hellaswag_schema.swag10.jsonl"};
  EXPECT_EQ(open(hellaswag)->size(), 10);
  SquadSettings squad;
  squad.paths = {eval + "squad_v2.sample10.jsonl"};
  EXPECT_EQ(open(squad)->size(), 7);
}

}  // namespace
}  // namespace glmtune::data
