// Masks on real conversations and real templates, read in place from GLMTUNE_SHARED.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/cat.h"
#include "base/error.h"
#include "data/chat_dataset.h"
#include "data/dataset.h"
#include "data/preview.h"

namespace glmtune::data {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ChatGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("GLMTUNE_SHARED");
    if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
    data_ = std::string(shared) + "/data/";
    tokenizer_ =
        std::make_shared<text::Tokenizer>(text::Tokenizer::load(data_ + "tokenizers/glm5-tiny"));
  }

  text::ChatTemplate load(const std::string& name) const {
    return text::ChatTemplate::parse(slurp(data_ + "templates/" + name), name);
  }

  // The ids trained on, in order; a stop that is a label only comes last.
  std::vector<std::int32_t> targets(const text::ChatTemplate& chat_template, io::Value context,
                                    const ChatSettings& settings = {}) const {
    io::Value options{io::Value::Object{}};
    for (const auto& [key, value] : context.as_object()) {
      if (key != "messages" && key != "tools" && key != "add_generation_prompt") {
        options.set(key, value);
      }
    }
    context.set("add_generation_prompt", false);
    const TurnFrame frame = probe_turns(chat_template, *tokenizer_, options);
    const auto rendered = chat_template.render(context);
    text::EncodeCache cache;
    const auto tokens = text::encode_rendered(*tokenizer_, rendered, cache).tokens;
    const auto& messages = context.find("messages")->as_array();
    const ChatLabels labels = label_chat(rendered, tokens, messages, frame, *tokenizer_, settings,
                                         chat_template.has_generation_blocks());
    std::vector<std::int32_t> out;
    for (const std::int32_t label : labels.labels) {
      if (label != kNoLabel) out.push_back(label);
    }
    return out;
  }

  std::string data_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
};

// data.md 2.2: the published template, masked by us, trains exactly what the training template's
// generation blocks mark.
TEST_F(ChatGolden, PlainTemplateTrainsWhatTheTrainingTemplateMarks) {
  const auto plain = load("glm-5.3-flash.jinja");
  const auto training = load("glm-5.3-flash.training.jinja");
  std::ifstream golden(data_ + "templates/golden.jsonl");
  std::string line;
  int compared = 0;
  while (std::getline(golden, line)) {
    const io::Value row = io::parse_json(line, "golden.jsonl");
    if (*row.find("template") != io::Value("glm-5.3-flash.training")) continue;
    if (row.find("rendered") == nullptr || row.find("rendered")->is_null()) continue;
    const io::Value& context = *row.find("context");
    const auto expected = targets(training, context);
    const auto found = targets(plain, context);
    if (expected.empty()) continue;
    ++compared;
    EXPECT_EQ(found, expected) << row.find("name")->as_string() << "\n"
                               << tokenizer_->decode(found) << "\n"
                               << tokenizer_->decode(expected);
  }
  EXPECT_GT(compared, 40);
}

// Every other template: all rows have targets where the conversation has an assistant turn.
TEST_F(ChatGolden, EveryTemplateHasTargetsInEveryAssistantTurn) {
  std::ifstream golden(data_ + "templates/golden.jsonl");
  std::string line;
  std::string name;
  std::optional<text::ChatTemplate> chat_template;
  while (std::getline(golden, line)) {
    const io::Value row = io::parse_json(line, "golden.jsonl");
    if (row.find("rendered") == nullptr || row.find("rendered")->is_null()) continue;
    if (row.find("template")->as_string() != name) {
      name = row.find("template")->as_string();
      chat_template = load(name + ".jinja");
    }
    bool answers = false;
    for (const io::Value& m : row.find("context")->find("messages")->as_array()) {
      answers = answers || *m.find("role") == io::Value("assistant");
    }
    // gpt-oss marks no tool calls: what a template's own blocks leave out is not trained on.
    if (chat_template->has_generation_blocks()) {
      answers = answers && !chat_template->render(*row.find("context")).generation.empty();
    }
    try {
      const auto found = targets(*chat_template, *row.find("context"));
      EXPECT_EQ(!found.empty(), answers) << name << " " << row.find("name")->as_string();
    } catch (const Error& e) {
      ADD_FAILURE() << name << " " << row.find("name")->as_string() << ": " << e.what();
    }
  }
}

TEST_F(ChatGolden, RealConversationsAreAccepted) {
  ChatSettings settings;
  for (const char* name :
       {"oasst_en", "self_instruct", "tool_calls_en", "tool_calls_zh", "reasoning_tool_use"}) {
    settings.paths.push_back(cat(data_, "chat/", name, ".messages.jsonl"));
  }
  settings.rows.shuffle_seed = 42;
  settings.too_long = TooLong::kTruncate;
  const TextTools tools{tokenizer_,
                        std::make_shared<text::ChatTemplate>(load("glm-5.3-flash.jinja")), 1024};
  const PackingSettings packing{.packed_sequence_size = 2048, .max_packs = {}, .shuffle = true};
  const auto source = open_dataset(settings, packing, tools);
  // Three tool rows hold nothing but tools before the cut.
  EXPECT_EQ(source->summary().samples, 255 + 427 + 300 + 120 + 50 - 3);
  EXPECT_EQ(source->summary().dropped_rows(), 3);
  std::int64_t labels = 0;
  for (std::int64_t p = 0; p < *source->size(); ++p) {
    const Pack pack = source->pack(p);
    EXPECT_LE(pack.tokens(), 2048);
    EXPECT_NO_THROW(check_pack(pack, 1024, "pack"));
    labels += pack.label_tokens();
  }
  EXPECT_EQ(labels, source->summary().label_tokens);
  const double share = static_cast<double>(labels) / static_cast<double>(source->summary().tokens);
  EXPECT_GT(share, 0.3);
  EXPECT_LT(share, 0.9);
}

}  // namespace
}  // namespace glmtune::data
