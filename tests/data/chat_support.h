#pragma once
// Conversations written to a file, opened as a ChatDataset with the tiny example's tokenizer and
// template, and shown with their targets in brackets.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "data/dataset.h"
#include "data/preview.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace glmtune::data {

inline const std::string kTiny = GLMTUNE_SOURCE "/examples/tiny";

// ChatML in a few lines; <|im_start|> and <|im_end|> are control tokens of the tokenizer below.
inline constexpr const char* kChatMl =
    "{%- for m in messages -%}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% endif %}";

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The tiny tokenizer with these added tokens besides.
inline std::shared_ptr<const text::Tokenizer> with_tokens(const std::vector<std::string>& names) {
  io::Value json = io::read_json_file(kTiny + "/tokenizer.json");
  io::Value::Array& added = json.find("added_tokens")->as_array();
  for (const std::string& name : names) {
    io::Value token = added.back();
    token.set("id", token.find("id")->as_int() + 1);
    token.set("content", name);
    added.push_back(token);
  }
  return std::make_shared<text::Tokenizer>(text::Tokenizer::parse(
      io::to_json(json), slurp(kTiny + "/tokenizer_config.json"), "test tokenizer"));
}

inline std::shared_ptr<const text::Tokenizer> tokenizer() {
  static const auto tokenizer = with_tokens({"<|im_start|>", "<|im_end|>"});
  return tokenizer;
}

class Chat : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "chat_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
    settings_.paths = {path_};
    tools_ = {tokenizer(), std::make_shared<text::ChatTemplate>(text::ChatTemplate::load(kTiny)),
              2048};
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void rows(const std::vector<std::string>& lines) {
    std::ofstream out(path_, std::ios::binary);
    for (const std::string& line : lines) out << line << "\n";
  }
  // One row of the given messages.
  void row(const std::string& messages) { rows({"{\"messages\": [" + messages + "]}"}); }

  std::unique_ptr<PackSource> open() { return open_dataset(settings_, packing_, tools_); }
  // The first document with targets in brackets.
  std::string shown() {
    const auto source = open();
    return preview_document(source->pack(0), 0, tokenizer().get(), {});
  }
  std::string error() {
    try {
      open();
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  std::string path_;
  ChatSettings settings_;
  PackingSettings packing_{.packed_sequence_size = 0, .max_packs = {}};
  TextTools tools_;
};

inline constexpr const char* kUserHi = R"({"role": "user", "content": "hi"})";
inline constexpr const char* kAnswer = R"({"role": "assistant", "content": "yes"})";

inline constexpr const char* kCall =
    R"({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
        "function": {"name": "f", "arguments": {"b": 1, "a": "x"}}}]})";
inline constexpr const char* kResult = R"({"role": "tool", "tool_call_id": "c", "content": "12"})";

inline std::string one_line(std::string s) {
  std::erase(s, '\n');
  return s;
}

inline constexpr const char* kReasoned =
    R"({"role": "assistant", "content": "4", "reasoning_content": "two and two"})";

}  // namespace glmtune::data
