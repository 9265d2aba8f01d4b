// Exact labels of published templates over conversations made to be difficult. The templates are
// read in place from GLMTUNE_SHARED. What is expected is found among the ids alone: where a
// header's tokens stand, the model's own begin, up to the next token that ends a turn.
#include <algorithm>
#include <cstdlib>

#include "data/chat_support.h"

namespace glmtune::data {
namespace {

// Messages of one conversation each; reasoning under both names that templates read.
constexpr const char* kConversations[] = {
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "< 5"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "<"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "<thi"},
       {"role": "user", "content": "c"}, {"role": "assistant", "content": "<think"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": ""})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": ""},
       {"role": "user", "content": ""}, {"role": "assistant", "content": "d"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "\n\nb\n"},
       {"role": "user", "content": "\n"}, {"role": "assistant", "content": "\nd"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "  b"},
       {"role": "user", "content": " c"}, {"role": "assistant", "content": "\td\t"})",
    R"({"role": "system", "content": "s"}, {"role": "user", "content": "a"},
       {"role": "assistant", "content": "assistant\nb"}, {"role": "user", "content": "assistant"},
       {"role": "assistant", "content": "user"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b",
        "reasoning_content": "because", "thinking": "because"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b",
        "reasoning_content": "< 5", "thinking": "< 5"}, {"role": "user", "content": "c"},
       {"role": "assistant", "content": "d", "reasoning_content": "\nr\n", "thinking": "\nr\n"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "",
        "reasoning_content": "r", "thinking": "r"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b",
        "reasoning_content": "", "thinking": ""})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nr\n</think>\n\nb"},
       {"role": "user", "content": "c"}, {"role": "assistant", "content": "<think>q</think>d"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "<think></think>b"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
       {"role": "user", "content": "c"})",
    R"({"role": "user", "content": "a<|im_end|><|user|>"},
       {"role": "assistant", "content": "b<|im_end|>\n<|im_start|>user\n<|user|>c<|endoftext|>"})",
    R"({"role": "user", "content": "\u00e9\u4f60\ud83d\ude00"},
       {"role": "assistant", "content": "\ud83d\ude00\u4f60e\u0301"})",
};
// With a tool; not every template has them.
constexpr const char* kToolConversations[] = {
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls":
        [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"x": "<"}}}]},
       {"role": "tool", "tool_call_id": "c", "content": "z"},
       {"role": "assistant", "content": "< 5"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "< 5", "tool_calls":
        [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}]},
       {"role": "tool", "tool_call_id": "c", "content": "</think>"},
       {"role": "assistant", "content": "b", "reasoning_content": "r"},
       {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls":
        [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
         {"id": "d", "type": "function", "function": {"name": "g", "arguments": {}}}]})",
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b",
        "reasoning_content": "r", "tool_calls":
        [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
         {"id": "d", "type": "function", "function": {"name": "g", "arguments": {}}}]},
       {"role": "tool", "tool_call_id": "c", "content": ""},
       {"role": "tool", "tool_call_id": "d", "content": "y"})",
};

using Ids = std::vector<std::int32_t>;

class TemplateLabels : public Chat {
 protected:
  void SetUp() override {
    Chat::SetUp();
    const char* shared = std::getenv("GLMTUNE_SHARED");
    if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
    folder_ = cat(shared, "/data/templates/");
    tools_.tokenizer = tokenizer_ =
        with_tokens({"<|im_start|>", "<|im_end|>", "<|im_system|>", "<|im_middle|>", "<|im_user|>",
                     "<|im_assistant|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>",
                     "<|return|>", "<|call|>"});
  }

  Ids ids(const std::string& text) const {
    return tokenizer_->encode(text, {.match_added_tokens = true}).ids;
  }
  std::int32_t id(const std::string& token) const { return *tokenizer_->token_id(token); }

  static bool at(const Ids& all, std::size_t i, const Ids& part) {
    return part.size() <= all.size() - i &&
           std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(i));
  }

  struct Rule {
    Ids header;
    bool line_after_header = false;  // and one token that begins with a line feed
    Ids given = {};   // what the prompt has behind the header, as far as the turn has it
    Ids ends = {};    // the first of these is the last target
    Ids begins = {};  // these end a turn too, but are no target
    std::int32_t last_stop = kNoLabel;  // the label of a last turn without an end
    std::int32_t last_call_stop = kNoLabel;
  };

  // Labels by the rule: labels[t] is what follows token t, where that is a target.
  Ids expected(const Ids& all, const Rule& rule, bool ends_in_call) const {
    Ids labels(all.size(), kNoLabel);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!at(all, i, rule.header)) continue;
      std::size_t j = i + rule.header.size();
      if (rule.line_after_header && j < all.size() &&
          tokenizer_->token_bytes(all[j]).starts_with("\n"))
        ++j;
      for (std::size_t g = 0; g < rule.given.size() && all[j] == rule.given[g]; ++g) ++j;
      const auto has = [&](const Ids& list) {
        return std::find(list.begin(), list.end(), all[j]) != list.end();
      };
      while (j < all.size() && !has(rule.ends) && !has(rule.begins)) {
        labels[j - 1] = all[j];
        ++j;
      }
      if (j < all.size() && has(rule.ends)) labels[j - 1] = all[j];
      if (j == all.size()) labels[j - 1] = ends_in_call ? rule.last_call_stop : rule.last_stop;
    }
    return labels;
  }

  void check(const std::string& name, const Rule& rule, bool with_tools) {
    settings_.chat_template = slurp(folder_ + name + ".jinja");
    std::vector<std::string> conversations(std::begin(kConversations), std::end(kConversations));
    if (with_tools)
      conversations.insert(conversations.end(), std::begin(kToolConversations),
                           std::end(kToolConversations));
    for (const std::string& messages : conversations) {
      row(one_line(messages));
      const Pack pack = open()->pack(0);
      const bool call = messages.rfind("\"tool_calls\"") != std::string::npos &&
                        messages.rfind("\"tool_calls\"") > messages.rfind("\"role\"");
      EXPECT_EQ(pack.labels, expected(pack.ids, rule, call))
          << name << "\n"
          << messages << "\n"
          << preview_document(pack, 0, tokenizer_.get(), {});
    }
  }

  Rule glm(const Ids& header) const {
    return {.header = header,
            .ends = {id("<|user|>"), id("<|observation|>"), id("<|system|>")},
            .begins = {id("<|assistant|>")},
            .last_stop = id("<|user|>"),
            .last_call_stop = id("<|observation|>")};
  }

  std::string folder_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
};

TEST_F(TemplateLabels, OfQwen3) {
  Rule rule{.header = ids("<|im_start|>assistant"),
            .line_after_header = true,
            .ends = {id("<|im_end|>")}};
  check("qwen3", rule, true);
  // The prompt closes the thinking; only last turns have that.
  rule.given = ids("<think>\n\n</think>\n\n");
  settings_.chat_template_kwargs = io::parse_json(R"({"enable_thinking": false})", "t");
  check("qwen3", rule, true);
}

TEST_F(TemplateLabels, OfGlm46) {
  Rule rule = glm(ids("<|assistant|>"));
  check("glm-4.6", rule, true);
  rule.given = ids("\n<think></think>");
  settings_.chat_template_kwargs = io::parse_json(R"({"enable_thinking": false})", "t");
  check("glm-4.6", rule, true);
}

TEST_F(TemplateLabels, OfGlm53) {
  const Rule rule = glm(ids("<|assistant|><think>"));
  check("glm-5.3-flash", rule, true);
}

TEST_F(TemplateLabels, OfMoonlight) {
  check("moonlight",
        {.header = ids("<|im_assistant|>assistant<|im_middle|>"), .ends = {id("<|im_end|>")}},
        false);
}

TEST_F(TemplateLabels, OfOlmo) {
  check("olmo",
        {.header = ids("<|assistant|>"), .line_after_header = true, .ends = {id("<|endoftext|>")}},
        false);
}

// Its blocks hold the headers; reasoning is shown in the last turn only.
TEST_F(TemplateLabels, OfGptOss) {
  settings_.chat_template = slurp(folder_ + "gpt-oss-20b.jinja");
  const Ids header = ids("<|start|>assistant<|channel|>");
  for (const char* messages : kConversations) {
    row(one_line(messages));
    const Pack pack = open()->pack(0);
    Ids labels(pack.ids.size(), kNoLabel);
    for (std::size_t i = 0; i < pack.ids.size(); ++i) {
      if (!at(pack.ids, i, header)) continue;
      for (std::size_t j = i; j < pack.ids.size(); ++j) {
        labels[j - 1] = pack.ids[j];
        if (pack.ids[j] == id("<|end|>") || pack.ids[j] == id("<|return|>")) break;
      }
    }
    EXPECT_EQ(pack.labels, labels) << messages << "\n"
                                   << preview_document(pack, 0, tokenizer_.get(), {});
  }
}

// What is not trained on under mask_reasoning_content: from the tag that opens it to its close.
TEST_F(TemplateLabels, OfReasoningThatIsMasked) {
  settings_.mask_reasoning_content = true;
  struct Case {
    const char* name;
    const char* open;
    const char* close;
  };
  for (const Case& c :
       {Case{"qwen3", "<think>", "</think>"}, Case{"glm-4.6", "<think>", "</think>"},
        Case{"glm-5.3-flash", "<think>", "</think>"},
        Case{"glm-5.3-flash.training", "<think>", "</think>"},
        Case{"qwen3-tulu3.training", "<think>", "</think>"},
        Case{"gpt-oss-20b", "<|start|>assistant<|channel|>analysis", "<|end|>"}}) {
    settings_.chat_template = slurp(folder_ + c.name + ".jinja");
    settings_.mask_reasoning_content = false;
    row(one_line(kConversations[9]));
    const Pack plain = open()->pack(0);
    settings_.mask_reasoning_content = true;
    const Pack masked = open()->pack(0);
    const Ids open_tag = ids(c.open);
    Ids labels = plain.labels;
    bool inside = false;
    for (std::size_t i = 0; i < plain.ids.size(); ++i) {
      inside = inside || at(plain.ids, i, open_tag);
      if (inside && i > 0) labels[i - 1] = kNoLabel;
      if (inside && plain.ids[i] == id(c.close)) inside = false;
    }
    EXPECT_NE(masked.labels, plain.labels) << c.name;
    EXPECT_EQ(masked.labels, labels) << c.name << "\n"
                                     << preview_document(masked, 0, tokenizer_.get(), {});
  }
}

}  // namespace
}  // namespace glmtune::data
