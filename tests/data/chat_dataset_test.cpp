#include "data/chat_dataset.h"

#include <gtest/gtest.h>

#include "data/chat_support.h"
#include "data/sample.h"

namespace glmtune::data {
namespace {

// user_reports.md 1, recipes.md section 8, rows 8 and 27.
TEST_F(Chat, TheFirstTargetIsWhatTheModelItselfMustEmitAndTheStopIsALabelOnly) {
  row(cat(kUserHi, ", ", kAnswer));
  EXPECT_EQ(shown(), "[gMASK]<sop><|user|>hi<|assistant|><think>⟦</think>yes⟧ then ⟦<|user|>⟧");
}

// user_reports.md section 3, stop marker: the next role marker is a target, headers never are.
TEST_F(Chat, TheMarkerThatEndsATurnIsATarget) {
  row(cat(kUserHi, ", ", kAnswer, ", ", kUserHi, ", ", kAnswer));
  EXPECT_EQ(shown(),
            "[gMASK]<sop><|user|>hi<|assistant|><think>⟦</think>yes<|user|>⟧hi<|assistant|><think>"
            "⟦</think>yes⟧ then ⟦<|user|>⟧");
}

TEST_F(Chat, TheStopsCanBeSwitchedOff) {
  row(cat(kUserHi, ", ", kAnswer, ", ", kUserHi, ", ", kAnswer));
  settings_.supervise_last_stop = false;
  EXPECT_TRUE(has(shown(), "⟦</think>yes<|user|>⟧hi"));
  EXPECT_TRUE(shown().ends_with("⟦</think>yes⟧"));
  settings_.supervise_last_stop = true;
  settings_.supervise_next_role = false;  // also switches the last stop off
  EXPECT_TRUE(has(shown(), "⟦</think>yes⟧<|user|>hi"));
  EXPECT_TRUE(shown().ends_with("⟦</think>yes⟧"));
}

// recipes.md section 5, 5: AutoModel's parity switch.
TEST_F(Chat, TheRoleHeaderIsATargetOnRequest) {
  row(cat(kUserHi, ", ", kAnswer));
  settings_.supervise_role_header = true;
  EXPECT_TRUE(has(shown(), "hi⟦<|assistant|><think></think>yes⟧"));
}

// user_reports.md 4 and section 3: no text "None"; a tool call stops at <|observation|>.
TEST_F(Chat, AToolCallIsATargetAndStopsAtTheObservation) {
  row(one_line(cat(kUserHi, ", ", kCall, ", ", kResult, ", ", kAnswer)));
  EXPECT_EQ(shown(),
            "[gMASK]<sop><|user|>hi<|assistant|><think>⟦</think><tool_call>f<arg_key>b</arg_key>"
            "<arg_value>1</arg_value><arg_key>a</arg_key><arg_value>x</arg_value></tool_call>"
            "<|observation|>⟧<tool_response>12</tool_response><|assistant|><think>⟦</think>yes⟧"
            " then ⟦<|user|>⟧");
  row(one_line(cat(kUserHi, ", ", kCall)));
  EXPECT_TRUE(shown().ends_with("</tool_call>⟧ then ⟦<|observation|>⟧")) << shown();
}

// user_reports.md 5 and 6: the same ids however the call and the tools are written.
TEST_F(Chat, TextAndObjectFormsGiveTheSameIds) {
  const std::string call = one_line(kCall);
  std::string text_call = call;
  text_call.replace(text_call.find("{\"b\": 1, \"a\": \"x\"}"), 18,
                    R"("{\"b\": 1, \"a\": \"x\"}")");
  const std::string tail = cat(", \"messages\": [", kUserHi, ", ");
  rows({cat(R"({"tools": [{"name": "f", "k": [1.5, null]}])", tail, call, "]}"),
        cat(R"({"tools": "[{\"name\": \"f\", \"k\": [1.5, null]}]")", tail, text_call, "]}")});
  const auto source = open();
  EXPECT_EQ(source->pack(0), source->pack(1));
  EXPECT_TRUE(has(shown(), "{\"name\": \"f\", \"k\": [1.5, null]}")) << shown();
}

// user_reports.md 2 and the table of conflicts: both settings.
TEST_F(Chat, AnEmptyThinkBlockIsATargetUnlessMasked) {
  row(cat(kUserHi, ", ", kAnswer));
  settings_.mask_empty_think = true;
  EXPECT_EQ(shown(), "[gMASK]<sop><|user|>hi<|assistant|><think></think>⟦yes⟧ then ⟦<|user|>⟧");
}

TEST_F(Chat, ReasoningIsATargetUnlessMasked) {
  row(cat(kUserHi, ", ", kReasoned));
  EXPECT_TRUE(has(shown(), "<think>⟦two and two</think>4⟧ then"));
  settings_.mask_empty_think = true;  // this block is not empty
  EXPECT_TRUE(has(shown(), "<think>⟦two and two</think>4⟧ then"));
  settings_.mask_reasoning_content = true;
  EXPECT_TRUE(has(shown(), "<think>two and two</think>⟦4⟧ then"));
  EXPECT_TRUE(has(open()->summary().text(), "reasoning blocks, not trained on: 1"));
}

TEST_F(Chat, MaskHistoryKeepsTheLastTurnOnly) {
  row(cat(kUserHi, ", ", kAnswer, ", ", kUserHi, ", ", kReasoned));
  settings_.mask_history = true;
  EXPECT_EQ(shown(),
            "[gMASK]<sop><|user|>hi<|assistant|><think></think>yes<|user|>hi<|assistant|><think>"
            "⟦two and two</think>4⟧ then ⟦<|user|>⟧");
}

// user_reports.md section 3, history rewriting: one render decides, every turn is a target.
TEST_F(Chat, ATemplateThatDropsEarlierReasoningIsNoError) {
  settings_.chat_template =
      "{%- for m in messages -%}{%- if m.role == 'user' -%}<|user|>{{ m.content }}"
      "{%- else -%}<|assistant|><think>{{ m.reasoning_content if loop.last }}</think>"
      "{{ m.content }}{%- endif -%}{%- endfor -%}"
      "{%- if add_generation_prompt -%}<|assistant|><think>{%- endif -%}";
  row(cat(kUserHi, ", ", kReasoned, ", ", kUserHi, ", ", kReasoned));
  EXPECT_EQ(shown(),
            "<|user|>hi<|assistant|><think>⟦</think>4<|user|>⟧hi<|assistant|><think>"
            "⟦two and two</think>4⟧ then ⟦<|user|>⟧");
  EXPECT_TRUE(
      has(open()->summary().text(), "reasoning blocks that the chat template leaves out: 1"));
}

TEST_F(Chat, AssistantTurnsInARowStopOnlyAfterTheLast) {
  row(cat(kUserHi, ", ", kAnswer, ", ", kAnswer));
  EXPECT_TRUE(has(shown(), "⟦</think>yes⟧<|assistant|><think>⟦</think>yes⟧ then ⟦<|user|>⟧"));
}

TEST_F(Chat, ChatMlTurnsEndWithTheirOwnToken) {
  settings_.chat_template = kChatMl;
  row(cat(kUserHi, ", ", kAnswer, ", ", kUserHi, ", ", kAnswer));
  EXPECT_EQ(shown(),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n⟦yes<|im_end|>⟧\n"
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n⟦yes<|im_end|>⟧\n");
}

TEST_F(Chat, GenerationBlocksSayThemselvesWhatIsATarget) {
  settings_.chat_template =
      "{%- for m in messages -%}{%- if m.role == 'user' -%}<|user|>{{ m.content }}{%- else -%}"
      "<|assistant|><think>{%- generation -%}</think>{{ m.content }}<|user|>{%- endgeneration -%}"
      "{%- endif -%}{%- endfor -%}";
  row(cat(kUserHi, ", ", kAnswer));
  EXPECT_EQ(shown(), "<|user|>hi<|assistant|><think>⟦</think>yes<|user|>⟧");
  settings_.mask_empty_think = true;
  EXPECT_EQ(shown(), "<|user|>hi<|assistant|><think></think>⟦yes<|user|>⟧");
}

TEST_F(Chat, ATemplateThatTellsNoBeginOfTurnsIsRefused) {
  settings_.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}";
  row(cat(kUserHi, ", ", kAnswer));
  EXPECT_TRUE(has(error(), "generation")) << error();
}

// user_reports.md 17, recipes.md section 8, row 28.
TEST_F(Chat, TextOfUsersNeverBecomesAControlToken) {
  row(cat(R"({"role": "user", "content": "a<|observation|>b<tool_call>c</think>"}, )", kAnswer));
  const auto source = open();
  const std::int32_t first_control = *tokenizer()->token_id("<|endoftext|>");
  std::int64_t controls = 0;
  for (const std::int32_t id : source->pack(0).ids) controls += id >= first_control ? 1 : 0;
  EXPECT_EQ(controls, 6);  // [gMASK] <sop> <|user|> <|assistant|> <think> </think>
  EXPECT_TRUE(has(source->summary().text(), "spellings of control tokens"));
  settings_.allow_control_tokens = true;
  controls = 0;
  const Pack allowed = open()->pack(0);
  for (const std::int32_t id : allowed.ids) controls += id >= first_control ? 1 : 0;
  EXPECT_EQ(controls, 9);
}

// user_reports.md 19: a pad id among the ids changes nothing.
TEST_F(Chat, ThePadTokenIsAnOrdinaryToken) {
  settings_.allow_control_tokens = true;
  row(cat(kUserHi, R"(, {"role": "assistant", "content": "a<|endoftext|>b"})"));
  EXPECT_TRUE(has(shown(), "⟦</think>a<|endoftext|>b⟧"));
}

// user_reports.md 3: nothing is ignored silently.
TEST_F(Chat, UnusedFieldsAreReportedWithCounts) {
  const std::string line = cat(R"({"source": "x", "messages": [)", kUserHi,
                               R"(, {"role": "assistant", "content": "b", "foo": 1, "bar": null,
                               "reasoning_content": "r"}]})");
  rows({one_line(line), one_line(line)});
  const std::string text = open()->summary().text();
  EXPECT_TRUE(has(text, "message field \"foo\" is not used by the chat template: 2")) << text;
  EXPECT_TRUE(has(text, "column \"source\" is not used: 2")) << text;
  EXPECT_FALSE(has(text, "reasoning_content\" is not used")) << text;
  EXPECT_FALSE(has(text, "bar")) << text;  // null: nothing is lost
}

// user_reports.md 12.
TEST_F(Chat, TemplateSettingsReachTheTemplateAndUnreadOnesAreReported) {
  settings_.chat_template = std::string("{{ mood }}") + kChatMl;
  settings_.chat_template_kwargs = io::parse_json(R"({"mood": "calm ", "thinking": true})", "t");
  row(cat(kUserHi, ", ", kAnswer));
  EXPECT_TRUE(shown().starts_with("calm <|im_start|>user"));
  EXPECT_TRUE(has(open()->summary().text(), "chat_template_kwargs.thinking is never read"));
}

// user_reports.md 14 and 2g, line 9.
TEST_F(Chat, RowsWithoutAnAssistantAreDroppedAndCounted) {
  rows({cat("{\"messages\": [", kUserHi, "]}"),
        cat("{\"messages\": [", kUserHi, ", ", kAnswer, "]}"),
        cat("{\"messages\": [", kUserHi, ", ", kAnswer, ", ", kUserHi, "]}")});
  const auto source = open();
  EXPECT_EQ(source->size(), 2);
  const std::string text = source->summary().text();
  EXPECT_TRUE(has(text, "dropped 1: no assistant turn")) << text;
  EXPECT_TRUE(has(text, "do not end with an assistant turn: 1")) << text;
  EXPECT_EQ(source->where(0, 0), path_ + ":2");
  rows({cat("{\"messages\": [", kUserHi, "]}")});
  EXPECT_TRUE(has(error(), "none is left to train on")) << error();
}

// user_reports.md 2g, line 4: accepted, since the stop is a target, and counted.
TEST_F(Chat, AnEmptyAnswerStillTeachesTheStop) {
  row(cat(kUserHi, R"(, {"role": "assistant", "content": ""})"));
  EXPECT_TRUE(shown().ends_with("<think>⟦</think>⟧ then ⟦<|user|>⟧")) << shown();
  EXPECT_TRUE(has(open()->summary().text(), "assistant turns without text or tool call: 1"));
}

// user_reports.md 15.
TEST_F(Chat, ATruncatedTurnKeepsItsLabelsUpToTheCutAndGetsNoStop) {
  row(cat(kUserHi, R"(, {"role": "assistant", "content": "0 1 2 3 4 5 6 7 8 9 10 11 12"})"));
  settings_.seq_length = 10;
  settings_.too_long = TooLong::kTruncate;
  const auto source = open();
  const Pack pack = source->pack(0);
  EXPECT_EQ(pack.tokens(), 10);
  EXPECT_EQ(pack.labels.back(), kNoLabel);
  EXPECT_EQ(pack.label_tokens(), 4) << shown();
  EXPECT_EQ(source->summary().truncated, 1);
  settings_.seq_length = 5;  // before the first target
  EXPECT_TRUE(has(error(), "no token to train on before the cut")) << error();
  settings_.seq_length = 10;
  settings_.too_long = TooLong::kError;
  EXPECT_TRUE(has(error(), ":1: ")) << error();
  settings_.too_long = TooLong::kKeep;
  EXPECT_GT(open()->pack(0).tokens(), 10);
}

TEST_F(Chat, TruncationCutsAtThePackWhereThatIsShorter) {
  row(cat(kUserHi, R"(, {"role": "assistant", "content": "0 1 2 3 4 5 6 7 8 9 10 11 12"})"));
  settings_.too_long = TooLong::kTruncate;
  packing_.packed_sequence_size = 12;
  EXPECT_EQ(open()->pack(0).tokens(), 12);
}

// user_reports.md 2g: file, line and reason, nothing trained; or skipped, counted, with a ceiling.
TEST_F(Chat, BadRowsStopTheRunOrAreSkippedAndCounted) {
  const std::string good = cat("{\"messages\": [", kUserHi, ", ", kAnswer, "]}");
  rows({good, "", R"({"messages": [{"role": "bot", "content": "x"}]})", good});
  EXPECT_TRUE(has(error(), path_ + ":3: messages[0].role: \"bot\"")) << error();
  settings_.bad_rows.skip = true;
  const auto source = open();
  EXPECT_EQ(source->size(), 2);
  EXPECT_TRUE(has(source->summary().text(), "skipped: " + path_ + ":3: messages[0].role"));
}

// A stray quote makes one element of three rows; as one bad row two would be lost uncounted.
TEST_F(Chat, AnElementOfAnArrayThatIsNoJsonIsNotSkipped) {
  const std::string good = cat("{\"messages\": [", kUserHi, ", ", kAnswer, "]}");
  const std::string stray =
      R"({"messages": [{"role": "user", "content": "a"b"}]}, {"messages": [{"content": "c"d"}]})";
  rows({cat("[", good, ",\n", stray, ",\n", good, "]")});
  settings_.bad_rows.skip = true;
  EXPECT_TRUE(has(error(), path_ + ": row 2: line 2, column 46: ")) << error();
  EXPECT_TRUE(has(error(), "cannot be told apart")) << error();
}

TEST_F(Chat, TheTemplatesOwnRefusalNamesTheRow) {
  settings_.chat_template =
      std::string(
          "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}") +
      kChatMl;
  row(cat(kAnswer, ", ", kUserHi, ", ", kAnswer));
  EXPECT_TRUE(has(error(), path_ + ":1: the chat template refuses")) << error();
  EXPECT_TRUE(has(error(), "user first")) << error();
}

TEST_F(Chat, TheFingerprintFollowsDataTemplateAndSettings) {
  row(cat(kUserHi, ", ", kAnswer));
  const std::string first = open()->fingerprint();
  EXPECT_EQ(open()->fingerprint(), first);
  settings_.supervise_last_stop = false;
  EXPECT_NE(open()->fingerprint(), first);
  settings_.supervise_last_stop = true;
  row(cat(kUserHi, ", ", kReasoned));
  EXPECT_NE(open()->fingerprint(), first);
}

TEST_F(Chat, AVocabularySmallerThanTheTokenizersIsNamed) {
  tools_.vocab_size = 1004;
  row(cat(kUserHi, ", ", kAnswer));
  EXPECT_TRUE(has(error(), ":1: token id 10")) << error();
}

// A cache of packs has the samples of its version: whoever changes them raises kSampleVersion, and
// this fingerprint with it.
TEST_F(Chat, SamplesOfThisVersionAreThese) {
  row(cat(kUserHi, ", ", kReasoned, ", ", kUserHi, ", ", one_line(kCall), ", ", kResult, ", ",
          kAnswer));
  EXPECT_EQ(kSampleVersion, 4);
  EXPECT_EQ(open()->fingerprint(), "53b4a42b1a9772627c7eb00c3684ae33");
}

}  // namespace
}  // namespace glmtune::data
