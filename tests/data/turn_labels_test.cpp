// Masks of templates that frame turns in ways of their own: exact labels of small templates.
#include <algorithm>

#include "data/chat_support.h"

namespace glmtune::data {
namespace {

class TurnLabels : public Chat {
 protected:
  void use(const std::string& chat_template) { settings_.chat_template = chat_template; }
  void turns(const std::string& first, const std::string& last) {
    row(cat(kUserHi, R"(, {"role": "assistant", "content": ")", first, "\"}, ", kUserHi,
            R"(, {"role": "assistant", "content": ")", last, "\"}"));
  }
  std::string notes() { return open()->summary().text(); }
  std::string untrained() {
    std::string list;
    for (const std::string& what : open()->chat_facts().untrained) list += what + "\n";
    return list;
  }
};

// The prompt goes on with a think tag that turns do not have.
constexpr const char* kPromptThinks =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}";

// user_reports.md 1: what an answer begins with is a target though the prompt has the same bytes.
TEST_F(TurnLabels, AnAnswerThatBeginsLikeThePromptGoesOnKeepsItsFirstToken) {
  use(kPromptThinks);
  turns("< 5", "<think");
  EXPECT_EQ(shown(),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n⟦< 5<|im_end|>⟧\n"
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n⟦<think<|im_end|>⟧\n");
}

TEST_F(TurnLabels, WhatThePromptGivesIsNoTargetWhereTheTurnHasItWhole) {
  use(kPromptThinks);
  settings_.allow_control_tokens = true;
  turns("<think>\\n\\n</think>\\n\\nyes", "<think>r</think>");
  EXPECT_EQ(
      shown(),
      "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
      "⟦yes<|im_end|>⟧\n"
      "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>⟦r</think><|im_end|>⟧\n");
}

// A blank of the header and the answer's first word are one token, which nobody has to emit.
TEST_F(TurnLabels, ATokenOfHeaderAndAnswerIsNoTargetAndCounted) {
  for (const char* prompt : {"<|im_start|>assistant ", "<|im_start|>assistant <think>"}) {
    use(
        cat("{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}"
            "{% if add_generation_prompt %}",
            prompt, "{% endif %}"));
    turns("the end", "< 5");
    EXPECT_TRUE(has(shown(), "<|im_start|>assistant the⟦ end<|im_end|>⟧")) << shown();
    EXPECT_TRUE(has(notes(), "first tokens that reach into the prompt, not trained on: "))
        << notes();
  }
}

// Some templates close a turn only where another follows; their prompt closes the user's.
constexpr const char* kLastTurnOpen =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}{% if not loop.last %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_end|>\n<|im_start|>assistant\n{% endif %}";

TEST_F(TurnLabels, ALastTurnWithoutItsEndTokenIsATargetAndTheEndTokenItsLastLabel) {
  use(kLastTurnOpen);
  row(cat(kUserHi, ", ", kReasoned, ", ", kUserHi, ", ", kReasoned));
  EXPECT_EQ(shown(),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
            "⟦<think>two and two</think>4<|im_end|>⟧\n<|im_start|>user\nhi<|im_end|>\n"
            "<|im_start|>assistant\n⟦<think>two and two</think>4⟧ then ⟦<|im_end|>⟧");
  EXPECT_TRUE(has(notes(), "last turns without the template's end token: their last label: 1"))
      << notes();
  EXPECT_EQ(untrained(), "");
  settings_.supervise_last_stop = false;
  EXPECT_TRUE(shown().ends_with("4⟧")) << shown();
  EXPECT_EQ(untrained(),
            "the stop of a conversation's last turn (dataset.supervise_last_stop is false)\n");
}

// As Qwen1.5's and Yi's do.
TEST_F(TurnLabels, SingleTurnsTeachTheStopOfATemplateThatEndsOnlyEarlierTurns) {
  use("{% for m in messages %}{{'<|im_start|>' + m.role + '\n' + m.content}}"
      "{% if (loop.last and add_generation_prompt) or not loop.last %}{{ '<|im_end|>' + '\n'}}"
      "{% endif %}{% endfor %}{% if add_generation_prompt and messages[-1].role != 'assistant' %}"
      "{{ '<|im_start|>assistant\n' }}{% endif %}");
  row(cat(kUserHi, ", ", kAnswer));
  EXPECT_EQ(shown(),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n⟦yes⟧ then ⟦<|im_end|>⟧");
}

TEST_F(TurnLabels, ATurnWithoutEndTokenBeforeOtherTextIsCounted) {
  use("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
      "{% if m.content != 'no end' %}<|im_end|>{% endif %}\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  turns("no end", "yes");
  EXPECT_TRUE(
      has(notes(), "assistant turns without the template's end token, before other text: 1"))
      << notes() << shown();
}

std::string marked(const std::string& before, const std::string& block, const std::string& after) {
  return cat("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}",
             before, "{% generation %}", block, "{% endgeneration %}", after,
             "{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
             "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
}

TEST_F(TurnLabels, BlocksThatLeaveOutTheStopAreCountedAndNamed) {
  use(marked("", "{{ m.content }}", "<|im_end|>\n"));
  turns("yes", "no");
  EXPECT_TRUE(has(shown(), "⟦yes⟧<|im_end|>")) << shown();
  EXPECT_TRUE(
      has(notes(), "assistant turns whose stop the template's generation blocks leave out: 2"))
      << notes();
  EXPECT_EQ(untrained(), "stops (the chat template's generation blocks leave it out)\n");
  use(marked("", "{{ m.content }}<|im_end|>", "\n"));
  EXPECT_TRUE(has(shown(), "⟦yes<|im_end|>⟧")) << shown();
  EXPECT_FALSE(has(notes(), "stop")) << notes();
  EXPECT_EQ(untrained(), "");
}

TEST_F(TurnLabels, ReasoningThatBlocksLeaveOutIsNamed) {
  use(marked("{{ m.reasoning_content }}", "{{ m.content }}<|im_end|>", ""));
  row(cat(kUserHi, ", ", kReasoned));
  EXPECT_EQ(untrained(), "reasoning (the chat template's generation blocks leave it out)\n");
}

TEST_F(TurnLabels, ATokenThatReachesIntoABlockIsCounted) {
  use(marked(" ", "{{ m.content }}<|im_end|>", ""));
  turns("the end", "yes");
  EXPECT_TRUE(has(shown(), "the⟦ end<|im_end|>⟧")) << shown();
  EXPECT_TRUE(has(notes(), "first tokens that reach into the prompt, not trained on: 2"))
      << notes();
}

// docs/recipe.md: with blocks these have no effect, which is said.
TEST_F(TurnLabels, SwitchesThatBlocksMakeIneffectiveAreNamed) {
  use(marked("", "{{ m.content }}<|im_end|>", ""));
  turns("yes", "no");
  EXPECT_FALSE(has(notes(), "no effect")) << notes();
  settings_.supervise_role_header = true;
  settings_.supervise_next_role = settings_.supervise_last_stop = false;
  for (const char* key : {"supervise_role_header", "supervise_next_role", "supervise_last_stop"})
    EXPECT_TRUE(has(notes(), cat("dataset.", key,
                                 " has no effect: the chat template's generation blocks say what "
                                 "is trained on")))
        << notes();
}

// mask_reasoning_content follows the field, whatever a template writes around it.
TEST_F(TurnLabels, ReasoningIsMaskedWithTheTagsOfTheTemplate) {
  settings_.mask_reasoning_content = true;
  row(cat(kUserHi, ", ", kReasoned));
  for (const auto& [open, close] :
       {std::pair("<think>", "</think>"), std::pair("<think>\\n", "\\n</think>"),
        std::pair("<thought>", "</thought>"), std::pair("[THINK]", "[/THINK]")}) {
    use(cat("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}{{'",
            open, "' + m.reasoning_content + '", close, "'}}{% endif %}{{ m.content }}<|im_end|>",
            "\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"));
    const std::string text = shown();
    EXPECT_TRUE(has(text, "⟦4<|im_end|>⟧")) << text;
    EXPECT_TRUE(has(notes(), "reasoning blocks, not trained on: 1")) << notes();
    EXPECT_EQ(untrained(), "reasoning (dataset.mask_reasoning_content)\n");
  }
}

// As in gpt-oss, where reasoning is a message of its own and the field is called thinking.
TEST_F(TurnLabels, ReasoningInAChannelOfItsOwnIsMasked) {
  use(marked("",
             "{% if m.thinking %}<think>analysis\n{{ m.thinking }}<|im_end|>{% endif %}"
             "<|im_start|>final\n{{ m.content }}<|im_end|>",
             ""));
  const std::string thought = R"({"role": "assistant", "content": "4", "thinking": "two"})";
  row(cat(kUserHi, ", ", thought));
  EXPECT_TRUE(has(shown(), "⟦<think>analysis\ntwo<|im_end|><|im_start|>final\n4<|im_end|>⟧"))
      << shown();
  EXPECT_FALSE(has(notes(), "thinking")) << notes();
  settings_.mask_reasoning_content = true;
  EXPECT_TRUE(has(shown(), "<think>analysis\ntwo<|im_end|>⟦<|im_start|>final\n4<|im_end|>⟧"))
      << shown();
  EXPECT_EQ(untrained(), "reasoning (dataset.mask_reasoning_content)\n");
}

TEST_F(TurnLabels, AnAnswerOfReasoningOnlyKeepsItsStop) {
  use("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.reasoning_content }}{{ m.content }}"
      "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  settings_.mask_reasoning_content = true;
  row(cat(kUserHi, R"(, {"role": "assistant", "content": "", "reasoning_content": "because"})"));
  EXPECT_TRUE(has(shown(), "because⟦<|im_end|>⟧")) << shown();
}

TEST_F(TurnLabels, ThinkTagsThatAreNotMaskedAreCounted) {
  use(kChatMl);
  settings_.mask_reasoning_content = true;
  turns("<think>r</think>yes", "so <think>r</think>no");
  EXPECT_TRUE(has(shown(), "<think>r</think>⟦yes<|im_end|>⟧")) << shown();
  EXPECT_TRUE(has(notes(), "think tags within answers, trained on with what they hold: 1"))
      << notes();
}

// user_reports.md section 3, history rewriting: reasoning in the content counts too.
TEST_F(TurnLabels, ReasoningInTheContentThatIsDroppedIsCounted) {
  use("{% for m in messages %}<|im_start|>{{ m.role }}\n"
      "{{ m.content if loop.last else m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  turns("<think>\\nold\\n</think>yes", "<think>new</think>no");
  EXPECT_TRUE(has(shown(), "⟦yes<|im_end|>⟧")) << shown();
  EXPECT_TRUE(has(notes(), "reasoning blocks that the chat template leaves out: 1")) << notes();
}

TEST_F(TurnLabels, ATemplateThatDemandsASystemMessageIsAccepted) {
  use(
      cat("{% if messages[0].role != 'system' %}{{ raise_exception('a system message is needed') }}"
          "{% endif %}",
          kChatMl));
  row(cat(R"({"role": "system", "content": "s"}, )", kUserHi, ", ", kAnswer));
  EXPECT_TRUE(has(shown(), "<|im_start|>assistant\n⟦yes<|im_end|>⟧")) << shown();
}

TEST_F(TurnLabels, ATemplateThatRefusesEveryProbeSaysThatItIsNoRow) {
  use(cat("{% if messages|length < 9 %}{{ raise_exception('too short') }}{% endif %}", kChatMl));
  row(cat(kUserHi, ", ", kAnswer));
  EXPECT_TRUE(has(error(), "too short")) << error();
  EXPECT_TRUE(has(error(),
                  "rendered to learn how the template frames assistant turns, not in a "
                  "row"))
      << error();
}

// Templates whose text is not in a loop over the messages: there a block is that of the messages
// whose text it holds.
class BlocksWithoutTurns : public TurnLabels {
 protected:
  void use_index_loop(const std::string& block) {
    use(
        cat("{% for i in range(messages|length) %}{% set m = messages[i] %}<|im_start|>{{ m.role }}"
            "\n{% if m.role == 'assistant' %}",
            block, "{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"));
  }
  void weighed(const std::string& first, const std::string& text = "yes") {
    row(cat(kUserHi, R"(, {"role": "assistant", "weight": )", first, R"(, "content": ")", text,
            "\"}, ", kUserHi, R"(, {"role": "assistant", "content": "no"})"));
  }
  // Without text of a template the first letter is the question's token.
  bool trains_last() { return has(shown(), "⟦no") || has(shown(), "hin⟦o⟧"); }
};
constexpr const char* kBlock = "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}";
constexpr const char* kLookAhead =
    "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>user\n{{ m.content }}<|im_end|>\n"
    "{% endif %}{% if m.role == 'user' and not loop.last and messages[loop.index].role == "
    "'assistant' %}<|im_start|>assistant\n{% generation %}{{ messages[loop.index].content }}"
    "<|im_end|>{% endgeneration %}\n{% endif %}{% endfor %}";
constexpr const char* kTextOnly =
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";

TEST_F(BlocksWithoutTurns, AWeightOfZeroAndMaskHistoryLeaveOutTheirBlocks) {
  for (const std::string chat_template : {"", kLookAhead, kTextOnly}) {
    if (chat_template.empty())
      use_index_loop(kBlock);
    else
      use(chat_template);
    settings_.mask_history = false;
    weighed("1");
    EXPECT_TRUE(has(shown(), "⟦yes") && trains_last()) << shown();
    EXPECT_FALSE(has(notes(), "leaves out")) << notes();
    weighed("0");
    EXPECT_TRUE(!has(shown(), "⟦yes") && trains_last()) << shown();
    EXPECT_TRUE(has(notes(), "assistant turns of weight 0, not trained on: 1")) << notes();
    weighed("1");
    settings_.mask_history = true;
    EXPECT_TRUE(!has(shown(), "⟦yes") && trains_last()) << shown();
    EXPECT_TRUE(has(untrained(), "dataset.mask_history")) << untrained();
  }
}

TEST_F(BlocksWithoutTurns, ABlockThatMayBeAnyMessagesIsAnErrorWhereThatMatters) {
  use_index_loop(kBlock);
  weighed("1", "");
  EXPECT_TRUE(has(shown(), "⟦<|im_end|>⟧")) << shown();
  EXPECT_TRUE(has(shown(), "⟦no<|im_end|>⟧")) << shown();
  weighed("0", "");
  EXPECT_TRUE(has(error(), path_ + ":1: the chat template has a generation block with no text"))
      << error();
  EXPECT_TRUE(has(error(), "a weight of 0 cannot be followed")) << error();
  settings_.mask_history = true;
  weighed("1", "");
  EXPECT_TRUE(has(error(), "dataset.mask_history cannot be followed")) << error();
}

// Here the first answer has a turn, which the last one's block is behind.
TEST_F(BlocksWithoutTurns, ABlockBehindAnotherMessagesTurnIsNotTakenForItsOwn) {
  use("{% for m in messages %}{% if m.role == 'user' %}<|im_start|>{{ m.content }}{% endif %}"
      "{% if m.role == 'user' and not loop.last %}{% generation %}<|im_end|>"
      "{{ messages[loop.index].content }}{% endgeneration %}{% endif %}{% endfor %}");
  settings_.mask_history = true;
  turns("yes", "");
  EXPECT_TRUE(has(error(), "dataset.mask_history cannot be followed")) << error();
}

TEST_F(BlocksWithoutTurns, AnIndexLoopWithoutBlocksAsksForThem) {
  use_index_loop("{{ m.content }}<|im_end|>");
  settings_.chat_template += "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  weighed("1");
  EXPECT_TRUE(has(error(), "does not write its turns in a loop over the messages")) << error();
  EXPECT_TRUE(has(error(), "mark it in the template with {% generation %} blocks")) << error();
}

// What probes ask beyond the rows must not end a run.
TEST_F(TurnLabels, ATemplateThatRefusesReasoningUnderTwoNamesIsProbedWithOneByOne) {
  const std::string refuses =
      "{% if m.thinking and m.reasoning_content %}{{ raise_exception('2') }}";
  const auto with = [&](const std::string& condition, const std::string& text) {
    use(cat("{% for m in messages %}", condition, "{% endif %}<|im_start|>{{ m.role }}\n", text,
            "{{ m.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"));
  };
  turns("yes", "no");
  with(refuses, "");
  EXPECT_EQ(untrained(), "");
  settings_.mask_reasoning_content = true;
  with(refuses, "{{ m.thinking }}");
  EXPECT_EQ(untrained(), "reasoning (dataset.mask_reasoning_content)\n");
  with("{% if m.reasoning_content or m.thinking or m.reasoning %}{{ raise_exception('none') }}",
       "");
  EXPECT_TRUE(has(shown(), "⟦yes<|im_end|>⟧")) << shown();
  EXPECT_EQ(untrained(), "reasoning (dataset.mask_reasoning_content)\n");
}

}  // namespace
}  // namespace glmtune::data
