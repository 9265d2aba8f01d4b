// What users report of data files (user_reports.md 2f, 70 to 72, and the table 2g), line by line.
// More of 71 and 72: rows_test.cpp; 69: pack_sampler_test.cpp; 73: shared_cache_test.cpp.
#include "data/chat_support.h"

namespace glmtune::data {
namespace {

class DatasetReports : public Chat {
 protected:
  void raw(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
};

const std::string kGood =
    R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]})";

struct Line {
  const char* json;
  const char* outcome;  // part of the error; "" accepted; "dropped: ..." left out, for this reason
};

// 2g, with 70: each line has one outcome, never a silent guess.
const Line kTable[] = {
    {R"({"messages": [{"content": "x"}, {"role": "assistant", "content": "y"}]})",
     "messages[0].role"},
    {R"({"messages": [{"role": "bot", "content": "x"}]})", "system, user, assistant, tool"},
    {R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}]})",
     ""},
    {R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": null,
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]}]})",
     ""},
    {R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "c",
        "function": {"name": "f", "arguments": "{\"bad"}}]}]})",
     "messages[0].tool_calls[0].function.arguments"},
    {R"({"messages": [{"role": "user", "content": "x"}, {"role": "tool", "content": "1"},
        {"role": "assistant", "content": "y"}]})",
     "without an earlier tool call"},
    {R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "c",
        "function": {"name": "f", "arguments": {}}}]},
        {"role": "tool", "content": "1", "tool_call_id": "d"}]})",
     "tool_call_id: \"d\""},
    {R"({"messages": []})", "messages: is empty"},
    {R"({"messages": [{"role": "user", "content": "x"}]})", "dropped: no assistant turn"},
    {R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"},
        {"role": "user", "content": "z"}]})",
     ""},
    {R"({"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"},
        {"role": "assistant", "content": "z"}]})",
     ""},
    {R"({"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "s"},
        {"role": "assistant", "content": "z"}]})",
     ""},
    {R"({"messages": [{"role": "assistant", "content": "first"}, {"role": "user", "content": "x"},
        {"role": "assistant", "content": "z"}]})",
     ""},
    {R"({"messages": [{"role": "user", "content": 3}, {"role": "assistant", "content": "y"}]})",
     "messages[0].content"},
    {R"({"messages": [{"role": "user", "content": {"a": 1}}]})", "messages[0].content"},
    {R"([{"role": "user"}])", "a row must be an object"},
    {R"({"messages": "hi"})", "messages: expected a list"},
    {R"({"text": "hi"})", "neither messages nor conversations"},
};

TEST_F(DatasetReports, EveryKindOfRowHasItsOutcome) {
  for (const Line& line : kTable) {
    rows({kGood, one_line(line.json)});
    const std::string expected = line.outcome;
    if (expected.empty()) {
      EXPECT_EQ(open()->size(), 2) << line.json;
    } else if (expected.starts_with("dropped: ")) {
      const auto source = open();
      EXPECT_EQ(source->size(), 1) << line.json;
      EXPECT_TRUE(has(source->summary().text(), "dropped 1: " + expected.substr(9))) << line.json;
    } else {
      EXPECT_TRUE(has(error(), path_ + ":2: ")) << line.json << "\n" << error();
      EXPECT_TRUE(has(error(), expected)) << line.json << "\n" << error();
    }
  }
}

// The same file as a whole: the bad rows are left out, counted and the first ones shown.
TEST_F(DatasetReports, ThePolicySkipsBadRowsUpToACeiling) {
  std::vector<std::string> lines;
  std::int64_t bad = 0, kept = 0;
  for (const Line& line : kTable) {
    lines.push_back(one_line(line.json));
    const std::string outcome = line.outcome;
    if (outcome.empty()) ++kept;
    if (!outcome.empty() && !outcome.starts_with("dropped")) ++bad;
  }
  rows(lines);
  settings_.bad_rows.skip = true;
  const auto source = open();
  EXPECT_EQ(source->size(), kept);
  const std::string text = source->summary().text();
  EXPECT_TRUE(has(text, cat("dropped ", bad, ": bad row (skip_invalid_samples)"))) << text;
  EXPECT_TRUE(has(text, "skipped: " + path_ + ":1: messages[0].role")) << text;
  for (int i = 0; i < 100; ++i) lines.push_back(kGood);
  rows(lines);
  settings_.bad_rows.ceiling = 0.05;
  EXPECT_TRUE(has(error(), "more than the ceiling of 0.05 of all")) << error();
  EXPECT_TRUE(has(error(), cat("rows ", lines.size(), ", samples ", kept + 100, ", packs")))
      << error();
}

// 2g, 13: CRLF and blank lines.
TEST_F(DatasetReports, LineEndsOfWindowsAndBlankLinesAreAccepted) {
  raw(kGood + "\r\n\r\n" + kGood + "\r\n\n\n");
  const auto source = open();
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(source->where(1, 0), path_ + ":3");
}

// 2g, 14: a file that ends within a row: line and column, and nothing is trained.
TEST_F(DatasetReports, AFileThatEndsWithinARowIsAnError) {
  raw(kGood + "\n" + kGood.substr(0, 40));
  EXPECT_TRUE(has(error(), path_ + ":2: column ")) << error();
}

// 71: a broken line is named, its contents are not printed.
TEST_F(DatasetReports, ABrokenLineIsNamedWithoutItsContents) {
  std::string text;
  for (int i = 1; i <= 10; ++i)
    text += i == 7 ? "{\"messages\": [{\"role\": \"user\", \"content\": \"secret\" oops}]}\n"
                   : kGood + "\n";
  raw(text);
  EXPECT_TRUE(has(error(), path_ + ":7: column ")) << error();
  EXPECT_FALSE(has(error(), "secret")) << error();
}

// 72: strict UTF-8; a byte order mark is tolerated, a lone surrogate is an error with its line.
TEST_F(DatasetReports, EncodingIsStrictUtf8) {
  raw("\xEF\xBB\xBF" + kGood + "\n");
  EXPECT_EQ(open()->size(), 1);
  const auto with = [&](const std::string& content) {
    raw(kGood + "\n{\"messages\": [{\"role\": \"user\", \"content\": \"" + content +
        "\"}, {\"role\": \"assistant\", \"content\": \"y\"}]}\n");
  };
  with("\\ud83d");
  EXPECT_TRUE(has(error(), path_ + ":2: ")) << error();
  with("\xC3\x28");
  EXPECT_TRUE(has(error(), path_ + ":2: ")) << error();
  with("\\ud83d\\ude42");
  EXPECT_TRUE(has(shown(), "hi"));
  EXPECT_EQ(open()->size(), 2);
}

}  // namespace
}  // namespace glmtune::data
