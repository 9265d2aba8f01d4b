#include "data/chat_row.h"

#include <gtest/gtest.h>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::data {
namespace {

ChatRow read(const std::string& json, const ChatRowOptions& options = {}) {
  return read_chat_row(io::parse_json(json, "f:7"), "f:7", options);
}

std::string error_of(const std::string& json) {
  try {
    read(json);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

void expect_error(const std::string& json, const std::string& part) {
  const std::string error = error_of(json);
  EXPECT_NE(error.find("f:7: "), std::string::npos) << error;
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

std::string json_of(const ChatRow& row) {
  return io::to_json(io::Value(row.messages));
}

// user_reports.md 2g, line by line (rows 70 to 72).
TEST(ChatRow, ValidConversationIsAccepted) {
  const ChatRow row = read(
      R"({"id": 1, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(row.messages.size(), 2U);
  EXPECT_EQ(row.columns, std::vector<std::string>{"id"});
  EXPECT_TRUE(row.tools.is_null());
}

TEST(ChatRow, RolesAreChecked) {
  expect_error(R"({"messages": [{"content": "a"}]})", "messages[0].role: is missing");
  expect_error(R"({"messages": [{"role": "bot", "content": "a"}]})",
               "\"bot\" is not one of system, user, assistant, tool");
  expect_error(R"({"messages": [{"role": 3, "content": "a"}]})", "messages[0].role: expected text");
}

TEST(ChatRow, AShareGptSystemTextIsText) {
  const std::string turns =
      R"("conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})";
  expect_error(R"({"system": ["Be short."], )" + turns, "system: expected text, found array");
  EXPECT_EQ(read(R"({"system": null, )" + turns).messages.size(), 2U);
  EXPECT_EQ(read(R"({"system": "Be short.", )" + turns).messages.size(), 3U);
}

TEST(ChatRow, TheIdOfAToolsResultIsText) {
  const char* row = R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "tool_calls": [{"id": "5", "type": "function",
       "function": {"name": "f", "arguments": {}}}]},
      {"role": "tool", "tool_call_id": 5, "content": "x"}]})";
  expect_error(row, "messages[2].tool_call_id: expected text, found integer");
}

TEST(ChatRow, WrongShapesAreNamedByPath) {
  expect_error(R"({"messages": []})", "messages: is empty");
  expect_error(R"({"messages": {}})", "messages: expected a list, found object");
  expect_error(R"({"messages": ["a"]})", "messages[0]: expected an object");
  expect_error(R"({"text": "a"})", "neither messages nor conversations; the row's keys: text");
  expect_error(R"({"messages": [{"role": "user", "content": 3}]})", "messages[0].content");
  expect_error(R"({"messages": [{"role": "user", "content": {"a": 1}}]})", "found object");
  expect_error(R"({"messages": [{"role": "user"}]})", "messages[0].content: is missing");
  expect_error(R"({"messages": [{"role": "assistant", "content": "", "reasoning_content": 1}]})",
               "messages[0].reasoning_content: expected text");
}

// user_reports.md 4.
TEST(ChatRow, NullContentIsEmpty) {
  const ChatRow row = read(R"({"messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": null, "reasoning_content": null,
     "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]})");
  EXPECT_EQ(*row.messages[1].find("content"), io::Value(""));
  EXPECT_EQ(row.messages[1].find("reasoning_content"), nullptr);
}

// user_reports.md 5: key order kept, nothing invented.
TEST(ChatRow, ToolArgumentsAsTextBecomeTheSameObject) {
  const char* as_object = R"({"messages": [{"role": "assistant", "content": "", "tool_calls":
    [{"id": "c", "function": {"name": "f", "arguments": {"b": 1, "a": [1.5, null]}}}]}]})";
  const char* as_text = R"({"messages": [{"role": "assistant", "content": "", "tool_calls":
    [{"id": "c", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": [1.5, null]}"}}]}]})";
  EXPECT_EQ(json_of(read(as_object)), json_of(read(as_text)));
  EXPECT_NE(json_of(read(as_text)).find("{\"b\": 1, \"a\": [1.5, null]}"), std::string::npos);
}

// user_reports.md 5: keys that a columnar file gives to every row are not the call's.
TEST(ChatRow, NullArgumentsOfAColumnarFileAreNobodys) {
  const std::string json =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [
      {"function": {"name": "f", "arguments": {"a": 1, "b": null, "c": {"d": null, "e": [null]}}}}]}]})";
  const ChatRow columnar = read(json, {.columnar = true});
  EXPECT_NE(json_of(columnar).find(R"("arguments": {"a": 1, "c": {"e": [null]}})"),
            std::string::npos)
      << json_of(columnar);
  ASSERT_EQ(columnar.notes.size(), 1U);
  EXPECT_EQ(columnar.notes[0].what, "tool calls of Parquet rows with null arguments, left out");
  EXPECT_NE(json_of(read(json)).find(R"("b": null)"), std::string::npos);
}

// Rendered as 2e+19 it would be another number.
TEST(ChatRow, AnIntegerBeyond64BitsIsRefused) {
  expect_error(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant",
      "tool_calls": [{"function": {"name": "f", "arguments": "{\"wei\": 20000000000000000000}"}}]}]})",
               "arguments: the integer 20000000000000000000 is beyond");
}

TEST(ChatRow, BadToolCallsAreNamedByPath) {
  const auto call = [](const std::string& function) {
    return R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": )" +
           function + "}]}]}";
  };
  expect_error(call(R"({"name": "f", "arguments": "{\"bad"})"),
               "messages[0].tool_calls[0].function.arguments");
  expect_error(call(R"({"name": "f", "arguments": "[1]"})"), "JSON object, found array");
  expect_error(call(R"({"name": "f", "arguments": 3})"), "expected an object, found integer");
  expect_error(call(R"({"name": "f"})"), "arguments: is missing");
  expect_error(call(R"({"arguments": {}})"), "function.name");
  expect_error(R"({"messages": [{"role": "user", "content": "", "tool_calls": [{}]}]})",
               "only an assistant calls tools");
}

TEST(ChatRow, ToolResultsNeedAnEarlierCall) {
  expect_error(R"({"messages": [{"role": "tool", "content": "1"}]})", "without an earlier");
  expect_error(R"({"messages": [{"role": "assistant", "content": "", "tool_calls":
    [{"id": "c1", "function": {"name": "f", "arguments": {}}}]},
    {"role": "tool", "content": "1", "tool_call_id": "c2"}]})",
               "messages[1].tool_call_id: \"c2\"");
}

// user_reports.md 6.
TEST(ChatRow, ToolsMayBeJsonText) {
  const char* rest = R"(, "messages": [{"role": "assistant", "content": "b"}]})";
  const ChatRow list = read(std::string(R"({"tools": [{"name": "f"}])") + rest);
  const ChatRow text = read(std::string(R"({"tools": "[{\"name\": \"f\"}]")") + rest);
  EXPECT_EQ(list.tools, text.tools);
  EXPECT_TRUE(read(std::string(R"({"tools": [])") + rest).tools.is_null());
  expect_error(std::string(R"({"tools": 3)") + rest, "tools: expected a list");
  expect_error(std::string(R"({"tools": ["f"])") + rest, "tools[0]: expected an object");
}

// user_reports.md 7.
TEST(ChatRow, TextPartsAreJoinedAndOtherPartsRefused) {
  const ChatRow row = read(R"({"messages": [{"role": "user", "content":
    [{"type": "text", "text": "1"}, "2", {"type": "text", "text": "3"}]}]})");
  EXPECT_EQ(*row.messages[0].find("content"), io::Value("123"));
  EXPECT_EQ(row.notes.size(), 1U);
  expect_error(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})",
               "messages[0].content[0]: expected {\"type\": \"text\"");
  const char* reference = R"({"messages": [
    {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {}}]},
    {"role": "tool", "content": [{"type": "tool_reference", "name": "f"}]}]})";
  expect_error(reference, "only text can be trained on");
  EXPECT_TRUE(read(reference, {.template_reads_tool_references = true})
                  .messages[1]
                  .find("content")
                  ->is_array());
}

// user_reports.md 2g, lines 10 and 11: accepted as they are, nothing merged or moved.
TEST(ChatRow, UnusualOrderOfTurnsIsKept) {
  const ChatRow row = read(R"({"messages": [{"role": "user", "content": "a"},
    {"role": "user", "content": "b"}, {"role": "system", "content": "c"},
    {"role": "assistant", "content": "d"}]})");
  EXPECT_EQ(row.messages.size(), 4U);
  EXPECT_EQ(*row.messages[2].find("role"), io::Value("system"));
}

TEST(ChatRow, ShareGptConversationsAreMapped) {
  const ChatRow row = read(R"({"system": "s", "conversations": [
    {"from": "human", "value": "a"},
    {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
    {"from": "observation", "value": "1"}, {"from": "gpt", "value": "b"}]})");
  ASSERT_EQ(row.messages.size(), 5U);
  EXPECT_EQ(*row.messages[0].find("role"), io::Value("system"));
  EXPECT_EQ(*row.messages[1].find("role"), io::Value("user"));
  EXPECT_EQ(row.messages[2].find("tool_calls")->size(), 1U);
  EXPECT_EQ(*row.messages[3].find("role"), io::Value("tool"));
  EXPECT_EQ(*row.messages[4].find("content"), io::Value("b"));
  EXPECT_TRUE(row.columns.empty());
  expect_error(R"({"conversations": [{"from": "alien", "value": "a"}]})",
               "conversations[0].from: \"alien\"");
}

// user_reports.md 3: what a turn has beside its text is part of it, whatever its shape.
TEST(ChatRow, OtherFieldsOfAShareGptTurnStay) {
  const ChatRow row = read(R"({"conversations": [{"from": "human", "value": "a", "weight": null},
    {"from": "gpt", "reasoning_content": "why", "value": "b", "weight": 0},
    {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {}}", "reasoning_content": "c"}]})");
  EXPECT_EQ(json_of(row),
            R"([{"role": "user", "content": "a", "weight": null}, )"
            R"({"role": "assistant", "reasoning_content": "why", "content": "b", "weight": 0}, )"
            R"({"role": "assistant", "content": "", "reasoning_content": "c", "tool_calls": )"
            R"([{"type": "function", "function": {"name": "f", "arguments": {}}}]}])");
  expect_error(R"({"conversations": [{"from": "gpt", "value": "a", "content": "b"}]})",
               "conversations[0]: found both value and content");
  expect_error(R"({"conversations": [{"from": "gpt", "value": "a", "reasoning_content": 1}]})",
               "conversations[0].reasoning_content: expected text");
}

// user_reports.md 5: the tools of a columnar file have the keys of all tools of all rows.
TEST(ChatRow, NullsOfAColumnarFileAreNobodys) {
  const std::string json = R"({"id": null, "conversations": null, "tools": [{"type": "function",
    "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string", "enum": null},
    "n": null}}}}], "messages": [
    {"role": "user", "content": "a", "name": null, "tool_calls": null, "meta": {"x": 1, "y": null}},
    {"role": "assistant", "content": null, "function_call": null, "tool_calls": [{"id": "c",
     "index": null, "function": {"name": "f", "strict": null, "arguments": {"a": "1"}}}]}]})";
  const ChatRow row = read(json, {.columnar = true});
  EXPECT_EQ(io::to_json(row.tools),
            R"([{"type": "function", "function": {"name": "f", "parameters": )"
            R"({"properties": {"a": {"type": "string"}}}}}])");
  EXPECT_EQ(json_of(row), R"([{"role": "user", "content": "a", "meta": {"x": 1}}, )"
                          R"({"role": "assistant", "content": "", "tool_calls": )"
                          R"([{"id": "c", "function": {"name": "f", "arguments": {"a": "1"}}}]}])");
  ASSERT_EQ(row.notes.size(), 1U);
  EXPECT_EQ(row.notes[0].what, "tools of Parquet rows with null members, left out");
  EXPECT_TRUE(row.columns.empty());
  EXPECT_NE(io::to_json(read(json).tools).find(R"("n": null)"), std::string::npos);
  const std::string text = R"({"tools": "[{\"name\": \"f\", \"default\": null}]", "messages": [
    {"role": "assistant", "content": "b"}]})";
  EXPECT_NE(io::to_json(read(text, {.columnar = true}).tools).find(R"("default": null)"),
            std::string::npos);
}

TEST(ChatRow, ReasoningUnderItsOtherNamesIsReasoning) {
  for (const char* name : {"thinking", "reasoning", "reasoning_content"}) {
    const ChatRow row = read(cat(R"({"messages": [{"role": "assistant", ")", name, R"(": "t"}]})"));
    EXPECT_TRUE(row.notes.empty()) << name;
    EXPECT_EQ(*row.messages[0].find("content"), io::Value(""));
  }
  expect_error(R"({"messages": [{"role": "user", "thinking": "t"}]})",
               "messages[0].content: is missing");
  expect_error(R"({"messages": [{"role": "assistant", "thinking": {"t": 1}}]})",
               "messages[0].content: is missing");
}

}  // namespace
}  // namespace glmtune::data
