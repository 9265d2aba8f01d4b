// never_trained: the labels of a probe conversation, read back.
#include <algorithm>
#include <exception>
#include <optional>

#include "base/cat.h"
#include "base/error.h"
#include "data/chat_labels.h"
#include "data/probe.h"
#include "data/rendered_view.h"

namespace glmtune::data {
namespace {

using io::Value;

// The conversations that are tried in turn: reasoning under each name that templates read, and
// where a template has none of them, or refuses them, plain answers.
std::vector<Value::Array> conversations(const Probe& probe) {
  const Value user = probe_message("user", "x");
  std::vector<Value::Array> out;
  for (const char* name : {"reasoning_content", "thinking", "reasoning", ""}) {
    Value answer = probe_message("assistant", "y");
    if (*name != '\0') answer.set(name, "r");
    out.push_back(probe.conversation({user, answer, user, answer}));
  }
  out.push_back(probe.conversation({user, probe_message("assistant", "y")}));
  return out;
}

bool is_of(const text::Segment& s, text::Field field) {
  return s.field == field && s.begin < s.end;
}

class LabelledProbe {
 public:
  LabelledProbe(const Probe& probe, Value::Array messages, const text::ChatTemplate& chat_template,
                const text::Tokenizer& tokenizer, const TurnFrame& frame, ChatSettings settings)
      : frame_(frame), messages_(std::move(messages)) {
    rendered_ = probe.render(messages_, false);
    tokens_ = probe.encode(rendered_);
    turns_ = find_turns(rendered_, messages_);
    const auto labels_with = [&](bool mask_history) {
      settings.mask_history = mask_history;
      return label_chat(rendered_, tokens_, messages_, frame, tokenizer, settings,
                        chat_template.has_generation_blocks())
          .labels;
    };
    if (settings.mask_history) masked_ = labels_with(true);
    labels_ = labels_with(false);
    last_ = turns_.empty() ? -1 : turns_.back().message;
    const RenderedView view(rendered_, tokens_, tokenizer);
    for (const Turn& turn : turns_) (turn.message == last_ ? last_stop_ : stop_) = stop(view, turn);
  }

  bool has_reasoning() const {
    return std::any_of(
        rendered_.segments.begin(), rendered_.segments.end(),
        [](const text::Segment& s) { return is_of(s, text::Field::kReasoningContent); });
  }

  // Under mask_history: whether text of an answer before the last one is a target all the same.
  bool history_is_target() const {
    const auto last = static_cast<std::int32_t>(messages_.size()) - 1;
    return std::any_of(rendered_.segments.begin(), rendered_.segments.end(),
                       [&](const text::Segment& s) {
                         return is_of(s, text::Field::kContent) && s.message >= 0 &&
                                s.message < last && has_target(masked_, s);
                       });
  }

  bool stop_is_target() const { return stop_; }
  bool last_stop_is_target() const { return last_stop_; }

  // Of reasoning that is rendered: whether any of it is a target.
  enum class Shown : std::uint8_t { kNowhere, kUntrained, kTrained };
  Shown reasoning() const {
    Shown found = Shown::kNowhere;
    for (const text::Segment& s : rendered_.segments) {
      if (!is_of(s, text::Field::kReasoningContent)) continue;
      if (found == Shown::kNowhere) found = Shown::kUntrained;
      if (has_target(labels_, s)) found = Shown::kTrained;
    }
    return found;
  }

 private:
  bool has_target(const std::vector<std::int32_t>& labels, const text::Segment& s) const {
    for (std::size_t t = 1; t < labels.size(); ++t) {
      const text::ByteRange at = tokens_.offsets[t];
      if (at.begin >= s.begin && at.end <= s.end && labels[t - 1] != kNoLabel) return true;
    }
    return false;
  }

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
  Value::Array messages_;
  text::Rendered rendered_;
  text::Encoding tokens_;
  std::vector<Turn> turns_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int32_t> masked_;  // labels under mask_history, where that is set
  std::int32_t last_ = -1;
  bool stop_ = true;
  bool last_stop_ = true;
};

// Of the first conversation that shows reasoning, else the first that the template takes.
LabelledProbe labelled_probe(const Probe& probe, const text::ChatTemplate& chat_template,
                             const text::Tokenizer& tokenizer, const TurnFrame& frame,
                             const ChatSettings& settings) {
  std::optional<LabelledProbe> taken;
  std::exception_ptr refused;
  for (Value::Array& messages : conversations(probe)) {
    try {
      LabelledProbe labels(probe, std::move(messages), chat_template, tokenizer, frame, settings);
      if (labels.has_reasoning()) return labels;
      if (!taken) taken.emplace(std::move(labels));
    } catch (const MachineError&) {
      throw;
    } catch (const Error&) {
      refused = std::current_exception();
    }
  }
  if (!taken) std::rethrow_exception(refused);
  return std::move(*taken);
}

}  // namespace

std::vector<std::string> never_trained(const text::ChatTemplate& chat_template,
                                       const text::Tokenizer& tokenizer, const Value& options,
                                       const TurnFrame& frame, const ChatSettings& settings) {
  const Probe probe(chat_template, tokenizer, options);
  const LabelledProbe labels = labelled_probe(probe, chat_template, tokenizer, frame, settings);
  const char* const blocks = "the chat template's generation blocks leave it out";
  const auto reason = [&](bool wanted, const char* setting) {
    if (chat_template.has_generation_blocks()) return std::string(blocks);
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
  if (settings.mask_history && !labels.history_is_target())
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
