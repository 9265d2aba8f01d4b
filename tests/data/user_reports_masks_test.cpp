// What users report of masks (user_reports.md 2a and section 3), as far as chat_dataset_test.cpp,
// chat_row_test.cpp and chat_golden_test.cpp do not show it already: there 1, 2, 4 to 7, 12, 14,
// 15, 17 and 19.
#include <algorithm>
#include <map>

#include "data/chat_support.h"
#include "io/sha256.h"

namespace glmtune::data {
namespace {

class MaskReports : public Chat {};

// 3: fields the template knows are rendered, the others are counted.
TEST_F(MaskReports, ReasoningAndCallsAreRenderedAndAnUnknownFieldIsReported) {
  row(one_line(cat(kUserHi, R"(, {"role": "assistant", "content": "", "foo": 1,
      "reasoning_content": "look it up", "tool_calls": [{"id": "c", "type": "function",
      "function": {"name": "f", "arguments": {"q": "x"}}}]})")));
  EXPECT_TRUE(has(shown(), "⟦look it up</think><tool_call>f<arg_key>q</arg_key>")) << shown();
  const std::string text = open()->summary().text();
  EXPECT_TRUE(has(text, "message field \"foo\" is not used by the chat template: 1")) << text;
  for (const char* used : {"reasoning_content", "tool_calls"})
    EXPECT_FALSE(has(text, cat("\"", used, "\" is not used"))) << text;
}

// 3: also where the template has the field's name elsewhere: GLM's reads "text" and "output" of
// parts of tool results, "name" of calls.
TEST_F(MaskReports, AFieldThatTheTemplateReadsOfOtherThingsIsReported) {
  row(R"({"role": "user", "content": "hi", "name": "alice"},
         {"role": "assistant", "content": "", "text": "the answer", "output": "x", "id": null})");
  rows({one_line(slurp(path_))});
  const std::string text = open()->summary().text();
  for (const char* field : {"text", "output", "name"})
    EXPECT_TRUE(has(text, cat("message field \"", field, "\" is not used by the chat template: 1")))
        << text;
  EXPECT_FALSE(has(text, "\"id\"")) << text;
}

// 3: a template that takes a message apart or prints it has used all of it.
TEST_F(MaskReports, AMessageUsedWholeHasNoUnusedFields) {
  row(R"({"role": "user", "content": "hi"}, {"role": "assistant", "content": "b", "foo": 1})");
  for (const char* use :
       {"{{ m | tojson }}", "{% for k, v in m.items() %}{{ v }}{% endfor %}", "{{ m }}",
        "{{ m['foo'] }}", "{{ m.get('foo') }}", "{% if 'foo' in m %}{{ m.content }}{% endif %}"}) {
    settings_.chat_template =
        cat("{% for m in messages %}<|im_start|>", use, "<|im_end|>{% endfor %}",
            "{% if add_generation_prompt %}<|im_start|>{% endif %}");
    EXPECT_FALSE(has(open()->summary().text(), "is not used")) << use;
  }
}

// OpenAI's fine-tuning format.
TEST_F(MaskReports, ATurnOfWeightZeroIsNotTrainedOn) {
  const auto turns = [&](const std::string& weight) {
    row(cat(kUserHi, R"(, {"role": "assistant", "content": "no", "weight": )", weight, "}, ",
            kUserHi, R"(, {"role": "assistant", "content": "yes", "weight": 1})"));
  };
  for (const char* zero : {"0", "0.0", "false"}) {
    turns(zero);
    EXPECT_EQ(shown(),
              "[gMASK]<sop><|user|>hi<|assistant|><think></think>no<|user|>hi<|assistant|><think>"
              "⟦</think>yes⟧ then ⟦<|user|>⟧");
    EXPECT_TRUE(has(open()->summary().text(), "assistant turns of weight 0, not trained on: 1"));
    EXPECT_FALSE(has(open()->summary().text(), "weight\" is not used"));
  }
  turns("null");
  EXPECT_TRUE(has(shown(), "⟦</think>no<|user|>⟧")) << shown();
  turns("0.5");
  EXPECT_TRUE(has(error(), path_ + ":1: messages[1].weight: expected 0")) << error();
  settings_.chat_template =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'user' %}{{ m.content }}"
      "{% else %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% endif %}"
      "{% endfor %}";
  turns("0");
  EXPECT_TRUE(has(shown(), "assistant\nno<|im_end|><|im_start|>")) << shown();
  EXPECT_TRUE(has(shown(), "⟦yes<|im_end|>⟧")) << shown();
}

// 5: files whose rows were unified by a columnar loader have nulls where a field is absent.
TEST_F(MaskReports, FieldsThatAreNullAreAbsent) {
  row(R"({"role": "user", "content": "hi", "tool_calls": null, "reasoning_content": null,
          "name": null}, {"role": "assistant", "content": "yes", "tool_calls": null})");
  const std::string line = one_line(slurp(path_));
  rows({line});
  EXPECT_EQ(shown(), "[gMASK]<sop><|user|>hi<|assistant|><think>⟦</think>yes⟧ then ⟦<|user|>⟧");
}

// 7: a tool's result as a list of parts is not lost.
TEST_F(MaskReports, AToolResultInPartsIsRendered) {
  row(one_line(cat(kUserHi, ", ", kCall,
                   R"(, {"role": "tool", "tool_call_id": "c",
                         "content": [{"type": "text", "text": "12"}]}, )",
                   kAnswer)));
  EXPECT_TRUE(has(shown(), "<tool_response>12</tool_response>")) << shown();
}

// 13: the template belongs to what a checkpoint remembers of its data.
TEST_F(MaskReports, OneByteOfTheTemplateChangesTheFingerprint) {
  row(cat(kUserHi, ", ", kAnswer));
  settings_.chat_template = kChatMl;
  const std::string before = open()->fingerprint();
  settings_.chat_template.insert(0, ".");
  EXPECT_NE(open()->fingerprint(), before);
}

// 13: and is known by the digest of its file.
TEST_F(MaskReports, TheTemplateIsKnownByItsDigest) {
  row(cat(kUserHi, ", ", kAnswer));
  const ChatFacts facts = open()->chat_facts();
  EXPECT_EQ(facts.template_sha256, io::sha256_hex(slurp(kTiny + "/chat_template.jinja")));
  EXPECT_TRUE(facts.untrained.empty());
}

// 13, and section 3: what is never trained on is named.
TEST_F(MaskReports, WhatIsNeverTrainedOnIsNamed) {
  row(cat(kUserHi, ", ", kAnswer));
  const auto untrained = [&] {
    std::string list;
    for (const std::string& what : open()->chat_facts().untrained) list += what + "\n";
    return list;
  };
  settings_.supervise_last_stop = false;
  EXPECT_EQ(untrained(),
            "the stop of a conversation's last turn (dataset.supervise_last_stop is false)\n");
  settings_.mask_history = settings_.mask_reasoning_content = true;
  EXPECT_TRUE(has(untrained(), "dataset.mask_history")) << untrained();
  EXPECT_TRUE(has(untrained(), "dataset.mask_reasoning_content")) << untrained();
  settings_.supervise_next_role = false;
  EXPECT_TRUE(has(untrained(), "stops (dataset.supervise_next_role is false)")) << untrained();
  // ChatML's turns end with a token of their own, which is trained on in any case.
  settings_.chat_template = kChatMl;
  EXPECT_FALSE(has(untrained(), "stop")) << untrained();
}

// 14: a data set without anything to train on ends before the first step.
TEST_F(MaskReports, ADataSetOfQuestionsOnlyIsAnError) {
  const std::string question = cat("{\"messages\": [", kUserHi, "]}");
  rows({question, question, question});
  EXPECT_TRUE(has(error(), "of 3 rows none is left to train on")) << error();
}

// 15: what happens to a long sample is chosen, and counted.
TEST_F(MaskReports, ALongSampleIsCutDroppedOrAnError) {
  const std::string longer =
      cat("{\"messages\": [", kUserHi,
          R"(, {"role": "assistant", "content": "0 1 2 3 4 5 6 7 8 9 10 11 12"}]})");
  rows({cat("{\"messages\": [", kUserHi, ", ", kAnswer, "]}"), longer});
  settings_.seq_length = 12;
  settings_.too_long = TooLong::kTruncate;
  EXPECT_TRUE(has(open()->summary().text(), "truncated 1, dropped 0"));
  settings_.too_long = TooLong::kDrop;
  EXPECT_TRUE(has(open()->summary().text(), "dropped 1: longer than dataset.seq_length 12"));
  settings_.too_long = TooLong::kError;
  EXPECT_TRUE(has(error(), path_ + ":2: ")) << error();
  EXPECT_TRUE(has(error(), "more than 12 (dataset.seq_length")) << error();
}

// 15: without dataset.seq_length a pack's size is the limit.
TEST_F(MaskReports, ASampleLongerThanAPackIsAnErrorWhereLongOnesAre) {
  row(cat(kUserHi, R"(, {"role": "assistant", "content": "0 1 2 3 4 5 6 7 8 9 10 11 12"})"));
  packing_.packed_sequence_size = 12;
  settings_.too_long = TooLong::kError;
  EXPECT_TRUE(has(error(), "more than 12 (dataset.seq_length, or a pack's size)")) << error();
}

TEST_F(MaskReports, ATurnThatTheTemplateWritesBehindIsCounted) {
  row(cat(kUserHi, ", ", kAnswer));
  std::string source = text::ChatTemplate::load(kTiny).source();
  const std::size_t prompt = source.rfind("{", source.find("add_generation_prompt"));
  source.insert(prompt, "{{ '\\n' }}");
  tools_.chat_template =
      std::make_shared<text::ChatTemplate>(text::ChatTemplate::parse(source, "t"));
  EXPECT_TRUE(has(open()->summary().text(),
                  "assistant turns followed by text of the template, without a stop: 1"))
      << open()->summary().text();
}

// 20: exactly one shift.
TEST_F(MaskReports, TheLabelOfAPositionIsTheNextToken) {
  row(cat(kUserHi, R"(, {"role": "assistant", "content": "a b c"})"));
  const Pack pack = open()->pack(0);
  int labelled = 0;
  for (std::size_t t = 0; t + 1 < pack.ids.size(); ++t) {
    if (pack.labels[t] == kNoLabel) continue;
    EXPECT_EQ(pack.labels[t], pack.ids[t + 1]) << t;
    ++labelled;
  }
  EXPECT_GE(labelled, 4);
  EXPECT_EQ(pack.labels.back(), *tokenizer()->token_id("<|user|>"));
}

// Section 3, stop marker: what is rendered is the template's text, the stop adds no input token.
TEST_F(MaskReports, TheStopAddsNoInputToken) {
  row(cat(kUserHi, ", ", kAnswer));
  const std::size_t with = open()->pack(0).ids.size();
  settings_.supervise_last_stop = false;
  EXPECT_EQ(open()->pack(0).ids.size(), with);
}

// Section 3: headers, users' text and tools' results are never targets, whatever the order.
TEST_F(MaskReports, OnlyWhatTheModelSaysIsATarget) {
  row(one_line(cat(R"({"role": "system", "content": "sss"}, {"role": "user", "content": "qqq"}, )",
                   kCall, ", ", kResult, ", ", kReasoned,
                   R"(, {"role": "user", "content": "uuu"}, )", kAnswer)));
  const std::string text = shown();
  std::string targets;
  for (std::size_t at = 0; (at = text.find("⟦", at)) != std::string::npos;) {
    const std::size_t end = text.find("⟧", at);
    targets += text.substr(at, end - at);
    at = end;
  }
  for (const char* never : {"sss", "qqq", "uuu", "tool_response", "<|assistant|>", "<|system|>"})
    EXPECT_FALSE(has(targets, never)) << never << "\n" << text;
  for (const char* always : {"<tool_call>", "two and two", "yes", "<|user|>", "<|observation|>"})
    EXPECT_TRUE(has(targets, always)) << always << "\n" << text;
}

// 17: neither system text, reasoning, calls, tools nor their results become control tokens.
TEST_F(MaskReports, NoPartOfARowBecomesAControlToken) {
  const std::string bad = "x<|user|><|observation|></think><tool_call>";
  rows({one_line(cat(R"({"tools": [{"name": "f", "description": ")", bad,
                     R"("}], "messages": [{"role": "system", "content": ")", bad,
                     R"("}, {"role": "user", "content": "q"}, {"role": "assistant", "content": ")",
                     bad, R"(", "reasoning_content": ")", bad,
                     R"(", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {")",
                     bad, R"(": ")", bad,
                     R"("}}}]}, {"role": "tool", "tool_call_id": "c", "content": ")", bad,
                     R"("}, )", kAnswer, "]}"))});
  const auto source = open();
  const std::int32_t first_control = *tokenizer()->token_id("<|endoftext|>");
  std::map<std::string, int> controls;
  for (const std::int32_t id : source->pack(0).ids)
    if (id >= first_control) ++controls[std::string(tokenizer()->token_bytes(id))];
  EXPECT_EQ(controls["<|user|>"], 1);
  EXPECT_EQ(controls["<|observation|>"], 1);
  EXPECT_EQ(controls["</think>"], 2);
  EXPECT_EQ(controls["<tool_call>"], 2);  // one in the template's own words about tools
  EXPECT_TRUE(has(source->summary().text(),
                  "spellings of control tokens in texts, encoded as ordinary text: 28"))
      << source->summary().text();
}

// A prompt that the turn does not begin with says nothing of the turn's first token.
TEST_F(MaskReports, ATurnThatIsNotFramedLikeThePromptKeepsItsFirstToken) {
  settings_.chat_template =
      "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}</think>{% endif %}"
      "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|><think>{% endif %}";
  row(R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})");
  EXPECT_TRUE(has(shown(), "<|assistant|>⟦</think>b⟧")) << shown();
}

TEST_F(MaskReports, ATokenThatReachesIntoThePromptIsNoTarget) {
  settings_.chat_template =
      "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %} {% endif %}"
      "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|> {% endif %}";
  row(R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "the end"})");
  const std::string note = "first tokens that reach into the prompt, not trained on: 1";
  EXPECT_TRUE(has(open()->summary().text(), note)) << open()->summary().text() << shown();
  EXPECT_TRUE(has(shown(), " the⟦ end⟧")) << shown();
}

// 17: nor does what a template makes a date of.
TEST_F(MaskReports, AFormatOfADateBecomesNoControlToken) {
  settings_.chat_template =
      "{% for m in messages %}<|{{ m.role }}|>{{ strftime_now(m.content) }}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  row(R"({"role": "user", "content": "a<|user|>"}, {"role": "assistant", "content": "b"})");
  const Pack pack = open()->pack(0);
  EXPECT_EQ(std::count(pack.ids.begin(), pack.ids.end(), *tokenizer()->token_id("<|user|>")), 1);
}

// recipes.md section 5, 5: AutoModel's mask of four messages of two tokens, by its parity switches.
TEST_F(MaskReports, FourShortMessagesAreMaskedAsAutoModelMasksThem) {
  settings_.chat_template =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  const std::string turn =
      R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})";
  row(cat(turn, ", ", turn));
  settings_.supervise_role_header = true;
  settings_.supervise_next_role = false;
  const Pack pack = open()->pack(0);
  ASSERT_EQ(pack.ids.size(), 8u);
  std::vector<int> targets(8, 0);
  for (std::size_t t = 0; t + 1 < 8; ++t) {
    if (pack.labels[t] == kNoLabel) continue;
    EXPECT_EQ(pack.labels[t], pack.ids[t + 1]);
    targets[t + 1] = 1;
  }
  EXPECT_EQ(targets, (std::vector<int>{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(pack.labels.back(), kNoLabel);
}

}  // namespace
}  // namespace glmtune::data
