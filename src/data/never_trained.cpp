// never_trained: the labels of a probe conversation, read back.
#include <algorithm>

#include "base/cat.h"
#include "data/chat_labels.h"
#include "data/probe.h"
#include "data/rendered_view.h"

namespace glmtune::data {
namespace {

using io::Value;

Value reasoned_answer() {
  Value answer = probe_message("assistant", "y");
  answer.set("reasoning_content", "r");
  answer.set("thinking", "r");
  return answer;
}

class LabelledProbe {
 public:
  LabelledProbe(const Probe& probe, const text::ChatTemplate& chat_template,
                const text::Tokenizer& tokenizer, const TurnFrame& frame, ChatSettings settings)
      : frame_(frame) {
    settings.mask_history = false;
    const Value user = probe_message("user", "x");
    const Value answer = reasoned_answer();
    const Value::Array messages = probe.conversation({user, answer, user, answer});
    rendered_ = probe.render(messages, false);
    tokens_ = probe.encode(rendered_);
    turns_ = find_turns(rendered_, messages);
    labels_ = label_chat(rendered_, tokens_, messages, frame, tokenizer, settings,
                         chat_template.has_generation_blocks())
                  .labels;
    last_ = turns_.empty() ? -1 : turns_.back().message;
    const RenderedView view(rendered_, tokens_, tokenizer);
    for (const Turn& turn : turns_) (turn.message == last_ ? last_stop_ : stop_) = stop(view, turn);
  }

  bool stop_is_target() const { return stop_; }
  bool last_stop_is_target() const { return last_stop_; }

  // Of reasoning that is rendered: whether any of it is a target.
  enum class Shown : std::uint8_t { kNowhere, kUntrained, kTrained };
  Shown reasoning() const {
    Shown found = Shown::kNowhere;
    for (const text::Segment& s : rendered_.segments) {
      if (s.field != text::Field::kReasoningContent || s.begin == s.end) continue;
      if (found == Shown::kNowhere) found = Shown::kUntrained;
      for (std::size_t t = 1; t < labels_.size(); ++t) {
        const text::ByteRange at = tokens_.offsets[t];
        if (at.begin >= s.begin && at.end <= s.end && labels_[t - 1] != kNoLabel)
          found = Shown::kTrained;
      }
    }
    return found;
  }

 private:
  bool stop(const RenderedView& view, const Turn& turn) const {
    const auto end = view.last_control_token(turn.begin, turn.end);
    const auto& ends = frame_.end_tokens;
    if (end && std::find(ends.begin(), ends.end(), view.id(*end)) != ends.end())
      return labels_[*end - 1] != kNoLabel;
    // The marker that follows, or behind the last token a label of its own.
    const std::size_t next = view.token_at(turn.end);
    return next > 0 && labels_[next - 1] != kNoLabel;
  }

  const TurnFrame& frame_;
  text::Rendered rendered_;
  text::Encoding tokens_;
  std::vector<Turn> turns_;
  std::vector<std::int32_t> labels_;
  std::int32_t last_ = -1;
  bool stop_ = true;
  bool last_stop_ = true;
};

}  // namespace

std::vector<std::string> never_trained(const text::ChatTemplate& chat_template,
                                       const text::Tokenizer& tokenizer, const Value& options,
                                       const TurnFrame& frame, const ChatSettings& settings) {
  const Probe probe(chat_template, tokenizer, options);
  const LabelledProbe labels(probe, chat_template, tokenizer, frame, settings);
  const std::string blocks = "the chat template's generation blocks leave it out";
  const auto reason = [&](bool wanted, const char* setting) {
    if (chat_template.has_generation_blocks()) return blocks;
    return wanted ? std::string("the chat template has no token for it")
                  : cat(setting, " is false");
  };
  std::vector<std::string> out;
  if (!labels.stop_is_target()) {
    out.push_back(
        cat("stops (", reason(settings.supervise_next_role, "dataset.supervise_next_role"), ")"));
  } else if (!labels.last_stop_is_target()) {
    out.push_back(cat("the stop of a conversation's last turn (",
                      reason(settings.supervise_last_stop, "dataset.supervise_last_stop"), ")"));
  }
  if (settings.mask_history)
    out.emplace_back("turns before a conversation's last one (dataset.mask_history)");
  using Shown = LabelledProbe::Shown;
  if (settings.mask_reasoning_content && labels.reasoning() != Shown::kTrained)
    out.emplace_back("reasoning (dataset.mask_reasoning_content)");
  else if (!settings.mask_reasoning_content && labels.reasoning() == Shown::kUntrained)
    out.push_back(cat("reasoning (", blocks, ")"));
  if (settings.mask_empty_think) out.emplace_back("empty think blocks (dataset.mask_empty_think)");
  return out;
}

}  // namespace glmtune::data
