// Rows of the shapes that public chat data sets have: each is read as docs/data.md says, or refused
// with the reason; what is not used is counted.
#include "data/chat_support.h"

namespace glmtune::data {
namespace {

class RowShapes : public Chat {
 protected:
  // The row with targets in brackets, from the first user turn on.
  std::string shown_of(const std::string& json) {
    rows({one_line(json)});
    const std::string text = shown();
    return text.substr(std::min(text.find("<|user|>"), text.size()));
  }
  std::string summary_of(const std::string& json) {
    rows({one_line(json)});
    return open()->summary().text();
  }
  void expect_refused(const std::string& json, const std::string& reason) {
    rows({one_line(json)});
    EXPECT_TRUE(has(error(), path_ + ":1: ")) << error();
    EXPECT_TRUE(has(error(), reason)) << error();
  }
};

constexpr const char* kShown = "<|user|>hi<|assistant|><think>⟦</think>yes⟧ then ⟦<|user|>⟧";

TEST_F(RowShapes, ColumnsBesideTheMessagesAreCounted) {  // tulu-3, ultrachat
  const std::string row = R"({"id": "a", "prompt": "hi", "source": "x", "messages": [
      {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]})";
  EXPECT_EQ(shown_of(row), kShown);
  for (const char* column : {"id", "prompt", "source"})
    EXPECT_TRUE(has(summary_of(row), cat("column \"", column, "\" is not used: 1")));
}

// Columns of bytes, decimals, INT96 and a codec that is not read stand beside the messages.
TEST_F(RowShapes, ParquetColumnsThatNobodyReadsMayBeOfAnyType) {
  settings_.paths = {GLMTUNE_SOURCE "/tests/fixtures/parquet/chat.beside_unreadable.parquet"};
  const auto source = open();
  EXPECT_EQ(source->size(), 2);
  const std::string text = source->summary().text();
  for (const char* column : {"raw", "price", "at", "packed", "emb"})
    EXPECT_TRUE(has(text, cat("column \"", column, "\" is not used: 2"))) << text;
}

TEST_F(RowShapes, NullWeightsOfShareGptTurnsAreNothing) {  // OpenHermes 2.5
  const std::string row = R"({"category": null, "skip_prompt_formatting": null, "source": "x",
      "conversations": [{"from": "human", "value": "hi", "weight": null},
      {"from": "gpt", "value": "yes", "weight": null}]})";
  EXPECT_EQ(shown_of(row), kShown);
  const std::string text = summary_of(row);
  EXPECT_TRUE(has(text, "column \"source\" is not used: 1")) << text;
  EXPECT_FALSE(has(text, "weight")) << text;
  EXPECT_FALSE(has(text, "category")) << text;
}

TEST_F(RowShapes, ConversationsMayHaveRolesAndMessagesMayHaveSpeakers) {
  EXPECT_EQ(shown_of(R"({"conversations": [{"role": "user", "content": "hi"},
      {"role": "assistant", "content": "yes"}]})"),
            kShown);
  EXPECT_EQ(shown_of(R"({"messages": [{"from": "human", "value": "hi"},
      {"from": "gpt", "value": "yes"}]})"),
            kShown);
  expect_refused(R"({"conversations": [{"role": "user", "value": "hi"}]})",
                 "conversations[0].content: is missing; the keys are: role, value");
}

TEST_F(RowShapes, ASystemColumnIsTheFirstTurn) {
  const std::string turns = R"(, "messages": [{"role": "user", "content": "hi"},
      {"role": "assistant", "content": "yes"}]})";
  rows({one_line(R"({"system": "Be short.")" + turns)});
  EXPECT_TRUE(has(shown(), "<|system|>Be short.<|user|>hi")) << shown();
  EXPECT_EQ(shown_of(R"({"system": "")" + turns), kShown);
  const std::string with_turn = R"(, "messages": [{"role": "system", "content": "A"},
      {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]})";
  rows({one_line(R"({"system": "A")" + with_turn)});
  EXPECT_TRUE(has(shown(), "<|system|>A<|user|>hi")) << shown();
  EXPECT_EQ(shown().find("<|system|>"), shown().rfind("<|system|>"));
  expect_refused(R"({"system": "B")" + with_turn, "system: the turns begin with another");
  expect_refused(R"({"system": 3)" + turns, "system: expected text, found integer");
}

TEST_F(RowShapes, ToolCallsOfShareGptAreJsonText) {  // glaive, as LLaMA-Factory has it
  const auto row = [](const std::string& call) {
    return R"({"tools": "[{\"name\": \"f\", \"parameters\": {}}]", "conversations": [
      {"from": "human", "value": "hi"}, {"from": "function_call", "value": ")" +
           call +
           R"("}, {"from": "observation", "value": "12"}, {"from": "gpt", "value": "yes"}]})";
  };
  const std::string one = shown_of(row(R"({\"name\": \"f\", \"arguments\": {\"a\": 1}})"));
  EXPECT_TRUE(has(one, "⟦</think><tool_call>f<arg_key>a</arg_key><arg_value>1")) << one;
  EXPECT_EQ(shown_of(row(R"([{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}])")), one);
  expect_refused(row("[]"), "conversations[1].value: an empty list of calls");
  expect_refused(row("f(1)"), "conversations[1].value: ");
}

TEST_F(RowShapes, ACallWithoutArgumentsHasNone) {
  const auto row = [](const std::string& arguments) {
    return R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "",
      "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": )" +
           arguments + "}}]}]}";
  };
  const std::string none = shown_of(row("{}"));
  EXPECT_TRUE(has(none, "<tool_call>f</tool_call>")) << none;
  for (const char* empty : {"null", R"("")", R"("{}")"})
    EXPECT_EQ(shown_of(row(empty)), none) << empty;
  EXPECT_TRUE(has(summary_of(row("null")), "null or empty arguments, taken as {}: 1"));
}

TEST_F(RowShapes, TheOlderFormOfACallIsACall) {  // OpenAI's function_call and role function
  const std::string rest = R"({"role": "function", "name": "f", "content": "12"},
      {"role": "assistant", "content": "yes", "function_call": null}]})";
  const std::string older = shown_of(
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null,
      "function_call": {"name": "f", "arguments": "{\"a\": 1}"}}, )" +
      rest);
  EXPECT_EQ(older, shown_of(R"({"messages": [{"role": "user", "content": "hi"},
      {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"a": 1}}]},
      {"role": "tool", "content": "12"}, {"role": "assistant", "content": "yes"}]})"));
  expect_refused(R"({"messages": [{"role": "assistant", "function_call": {"name": "f",
      "arguments": {}}, "tool_calls": [{"name": "f", "arguments": {}}]}]})",
                 "messages[0].tool_calls: found both forms of tool calls");
}

TEST_F(RowShapes, ToolsMayBeFlatAndTheirResultsNamed) {
  const std::string row = R"({"tools": [{"name": "f", "description": "d", "parameters": {}}],
      "messages": [{"role": "user", "content": "hi"},
      {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {}}]},
      {"role": "tool", "name": "f", "content": "12"}, {"role": "assistant", "content": "yes"}]})";
  rows({one_line(row)});
  EXPECT_TRUE(has(shown(), R"({"name": "f", "description": "d", "parameters": {}})")) << shown();
  EXPECT_EQ(open()->size(), 1);
  const std::string messages = row.substr(row.find("\"messages\""));
  for (const char* none : {"null", "[]", R"("")", R"("[]")", R"("null")"})
    EXPECT_EQ(shown_of(cat("{\"tools\": ", none, ", ", messages)), shown_of("{" + messages));
}

TEST_F(RowShapes, ContentMayBeListsOfTextParts) {
  EXPECT_EQ(shown_of(R"({"messages": [
      {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]},
      {"role": "assistant", "content": [{"type": "text", "text": "yes", "annotations": []}]}]})"),
            kShown);
  expect_refused(
      R"({"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "x"}]}]})",
      "a part of type \"tool_use\"");
  expect_refused(R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": "[]"}]})",
                 "messages[0].tool_calls: expected a list, found string");
}

// An answer under another name would be trained as an empty one.
TEST_F(RowShapes, AnAnswerUnderAnotherNameIsRefusedOrCounted) {
  expect_refused(R"({"messages": [{"role": "user", "content": "hi"},
      {"role": "assistant", "text": "yes"}]})",
                 "messages[1].content: is missing; the keys are: role, text");
  const std::string refusal = R"({"messages": [{"role": "user", "content": "hi"},
      {"role": "assistant", "content": null, "refusal": "no"}]})";
  const std::string text = summary_of(refusal);
  EXPECT_TRUE(has(text, "assistant turns with neither text nor reasoning nor tool calls: 1"))
      << text;
  EXPECT_TRUE(has(text, "message field \"refusal\" is not used")) << text;
}

TEST_F(RowShapes, RowsOfOtherTasksAreRefusedWithTheirKeys) {
  const std::string keys = "neither messages nor conversations; the row's keys: ";
  expect_refused(R"({"instruction": "a", "input": "", "output": "b"})",
                 keys + "instruction, input, output");
  expect_refused(R"({"system": "SYSTEM: a", "chat": "USER: hi ASSISTANT: yes"})",
                 keys + "system, chat");
  expect_refused(R"({"prompt": [{"role": "user", "content": "hi"}], "completion": []})",
                 keys + "prompt, completion");
  expect_refused(R"({"chosen": [], "rejected": []})", keys + "chosen, rejected");
  expect_refused(R"({"messages": "[{\"role\": \"user\"}]"})", "messages: expected a list");
  expect_refused(R"({"messages": [{"role": "developer", "content": "a"}]})",
                 "\"developer\" is not one of system, user, assistant, tool");
  expect_refused(R"({"conversations": [{"from": "bing", "value": "a"}]})", "\"bing\" is not one");
  expect_refused(R"({"conversations": ["hi", "yes"]})", "conversations[0]: expected an object");
}

}  // namespace
}  // namespace glmtune::data
