// Which template renders a conversation, and which time it writes.
#include <ctime>

#include "base/cat.h"
#include "data/chat_support.h"

namespace glmtune::data {
namespace {

constexpr const char* kTurn =
    R"({"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"})";

class ChatTemplates : public Chat {
 protected:
  void SetUp() override {
    Chat::SetUp();
    folder_ = std::filesystem::path(::testing::TempDir()) / "glmtune_chat_templates";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    Chat::TearDown();
  }
  void named(const io::Value::Object& templates) {
    io::Value::Array list;
    for (const auto& [name, source] : templates) {
      list.push_back(io::Value::Object{{"name", name}, {"template", source}});
    }
    std::ofstream(folder_ / "tokenizer_config.json")
        << io::to_json(io::Value::Object{{"chat_template", list}});
    tools_.chat_template =
        std::make_shared<text::ChatTemplate>(text::ChatTemplate::load(folder_.string()));
  }
  std::filesystem::path folder_;
};

constexpr const char* kPlain =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";
// Cannot do without tools, and ends turns in its own way.
constexpr const char* kForTools =
    "{% for t in tools %}{{ t.function.name }}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant:{% endif %}";

// user_reports.md, named templates: per row, as transformers' apply_chat_template chooses.
TEST_F(ChatTemplates, ARowWithToolsIsRenderedByTheTemplateForTools) {
  named({{"default", kPlain}, {"tool_use", kForTools}});
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}], )";
  rows({cat("{", tools, "\"messages\": [", kTurn, "]}")});
  EXPECT_EQ(shown(), "f<|im_start|>user:hi<|im_end|><|im_start|>assistant:⟦yes<|im_end|>⟧");
  rows({cat("{\"messages\": [", kTurn, "]}")});
  EXPECT_EQ(shown(), "<|user|>hi<|assistant|>⟦yes⟧ then ⟦<|user|>⟧");
  settings_.chat_template = kPlain;  // the user's own wins
  rows({cat("{", tools, "\"messages\": [", kTurn, "]}")});
  EXPECT_EQ(shown(), "<|user|>hi<|assistant|>⟦yes⟧ then ⟦<|user|>⟧");
}

TEST_F(ChatTemplates, BothTemplatesBelongToTheIdentityOfTheData) {
  row(kTurn);
  const auto digest = [&](const char* for_tools) {
    named({{"default", kPlain}, {"tool_use", for_tools}});
    return open()->chat_facts().template_sha256;
  };
  const std::string both = digest(kForTools);
  EXPECT_EQ(both, digest(kForTools));
  EXPECT_NE(both, digest("{{ tools[0] }}{{ messages }}<|im_start|>{% if add_generation_prompt %}x"
                         "{% endif %}"));
  named({{"default", kPlain}});
  EXPECT_NE(both, open()->chat_facts().template_sha256);
}

TEST_F(ChatTemplates, TheTimeCanBePinnedAndIsOneForAllRows) {
  settings_.chat_template =
      "{{ strftime_now('%Y-%m-%d %H:%M:%S %a %j') }}{% for m in messages %}<|{{ m.role }}|>"
      "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
  const auto pin = [&](const char* time) {
    settings_.chat_template_kwargs = io::Value::Object{{"strftime_now", time}};
  };
  row(kTurn);
  EXPECT_TRUE(has(open()->summary().text(), "chat_template_kwargs.strftime_now"));
  pin("2024-02-29");
  EXPECT_TRUE(shown().starts_with("2024-02-29 00:00:00 Thu 060<|user|>")) << shown();
  EXPECT_FALSE(has(open()->summary().text(), "strftime_now"));
  pin("2026-01-31 23:59:58");
  EXPECT_TRUE(shown().starts_with("2026-01-31 23:59:58 Sat 031<|user|>")) << shown();
  for (const char* wrong : {"2023-02-29", "yesterday", "2026-01-31 12", ""}) {
    pin(wrong);
    EXPECT_TRUE(has(error(), "dataset.chat_template_kwargs.strftime_now")) << wrong << error();
  }
}

}  // namespace
}  // namespace glmtune::data
