#include "data/chat_labels.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/cat.h"
#include "base/error.h"
#include "data/reasoning.h"
#include "data/rendered_view.h"

namespace glmtune::data {
namespace {

using io::Value;
using text::Field;

class Labeller {
 public:
  Labeller(const text::Rendered& rendered, const text::Encoding& tokens,
           const Value::Array& messages, const TurnFrame& frame, const text::Tokenizer& tokenizer,
           const ChatSettings& settings)
      : view_(rendered, tokens, tokenizer),
        rendered_(rendered),
        messages_(messages),
        frame_(frame),
        settings_(settings),
        turns_(find_turns(rendered, messages)),
        target_(tokens.ids.size(), false) {}

  ChatLabels by_turns() {
    refuse_split_turns();
    count_missing();
    for (std::size_t i = 0; i < turns_.size(); ++i) {
      if (settings_.mask_history && i + 1 < turns_.size()) continue;
      if (trained(turns_[i])) label_turn(turns_[i]);
    }
    return finish();
  }

  ChatLabels by_generation_blocks() {
    count_missing();
    const std::vector<bool> kept = kept_messages();
    const auto keeps = [&](std::int32_t m) { return kept[static_cast<std::size_t>(m)]; };
    for (const auto& [begin, end] : rendered_.generation) {
      if (begin == end) continue;
      const std::vector<std::int32_t> of = messages_of_block(begin, end);
      if (of.empty() ? keeps_all_or_none(kept) : std::all_of(of.begin(), of.end(), keeps))
        label_block(begin, end);
    }
    for (const Turn& turn : turns_) {
      if (!keeps(turn.message)) continue;
      if (!marked(turn))
        add_count(notes_, "assistant turns outside the template's generation blocks");
      else if (!stop_is_marked(turn))
        add_count(notes_, "assistant turns whose stop the template's generation blocks leave out");
    }
    return finish();
  }

 private:
  void set(std::size_t first, std::size_t end, bool value) {
    for (std::size_t t = first; t < end; ++t) target_[t] = value;
  }

  const Value& message(std::int32_t m) const { return messages_[static_cast<std::size_t>(m)]; }

  bool trained(const Turn& turn) const {
    return is_trained_on(messages_, static_cast<std::size_t>(turn.message));
  }

  bool role_is(std::int32_t m, const char* role) const {
    if (m < 0 || static_cast<std::size_t>(m) >= messages_.size()) return false;
    const Value* r = message(m).find("role");
    return r != nullptr && *r == Value(role);
  }

  void refuse_split_turns() const {
    for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
      if (std::any_of(turns_.begin(), turn,
                      [&](const Turn& other) { return other.message == turn->message; })) {
        fail(cat("messages[", turn->message,
                 "]: the chat template renders this assistant turn in more than one place, so what "
                 "to train on is unclear; mark it in the template with {% generation %} blocks"));
      }
    }
  }

  // The first token of the model's own text in a turn: behind the tokens that its generation
  // prompt gives. A token that begins in the prompt and ends behind it is no target: no model has
  // to emit it after the prompt.
  std::size_t own_token(const Turn& turn) {
    const GenerationPrompt& prompt =
        role_is(turn.message - 1, "tool") ? frame_.after_tool : frame_.after_user;
    const std::size_t first = view_.token_at(turn.begin);
    const std::size_t end = view_.token_at(turn.end);
    std::size_t t = first;
    const auto& given = prompt.tokens;
    while (t < end && t - first < given.ids.size() && view_.id(t) == given.ids[t - first] &&
           view_.bytes(t).end - turn.begin == given.offsets[t - first].end) {
      ++t;
    }
    const std::string_view text = view_.text().substr(turn.begin, turn.end - turn.begin);
    const std::size_t shared = static_cast<std::size_t>(
        std::mismatch(prompt.text.begin(), prompt.text.end(), text.begin(), text.end()).first -
        prompt.text.begin());
    // Behind the whole prompt, or behind the header of a turn that goes on otherwise.
    std::size_t header = turn.begin + shared;
    if (shared < prompt.text.size()) {
      if (t == first) return own_without_prompt(first, end);
      if (t == end) return t;
      const std::size_t own_text = view_.first_text(view_.bytes(t).begin, turn.end);
      if (own_text > header || view_.bytes(t).end <= own_text) return t;
      header = own_text;
    }
    for (; t < end && view_.bytes(t).begin < header; ++t) {
      if (view_.bytes(t).end > header)
        add_count(notes_, "first tokens that reach into the prompt, not trained on");
    }
    return t;
  }

  // In a turn that is not framed like the prompt all the template writes before the text is header.
  std::size_t own_without_prompt(std::size_t t, std::size_t end) const {
    while (t < end && view_.frame_at(view_.bytes(t).begin)) ++t;
    return t;
  }

  // Of a turn or a block.
  std::optional<std::size_t> end_token(std::size_t begin, std::size_t end) const {
    const auto t = view_.last_control_token(begin, end);
    const auto& ends = frame_.end_tokens;
    const bool known = t && std::find(ends.begin(), ends.end(), view_.id(*t)) != ends.end();
    return known ? t : std::nullopt;
  }

  std::int32_t stop_of(const Turn& turn) const {
    return message(turn.message).find("tool_calls") != nullptr ? frame_.stop_after_call
                                                               : frame_.stop_after_answer;
  }

  void label_turn(const Turn& turn) {
    const std::size_t own = own_token(turn);
    const std::size_t first = settings_.supervise_role_header ? view_.token_at(turn.begin) : own;
    const std::optional<std::size_t> stop = end_token(turn.begin, turn.end);
    // The end token is the last thing the model emits; blanks behind it are the frame's.
    const std::size_t end = stop ? *stop + 1 : view_.token_at(turn.end);
    set(first, end, true);
    const std::size_t own_end = stop ? view_.bytes(*stop).begin : turn.end;
    if (own < end) mask_reasoning(view_.bytes(own).begin, own_end);
    if (stop) return;
    if (frame_.closes_turns())
      label_left_out_end(turn, end);
    else if (settings_.supervise_next_role)
      label_next_role(turn, end);
  }

  // Some templates end only the turns that others follow.
  void label_left_out_end(const Turn& turn, std::size_t end) {
    if (end < view_.size()) {
      add_count(notes_, "assistant turns without the template's end token, before other text");
    } else if (settings_.supervise_last_stop) {
      last_stop_ = stop_of(turn);
      add_count(notes_, "last turns without the template's end token: their last label");
    }
  }

  void label_next_role(const Turn& turn, std::size_t end) {
    if (end == view_.size()) {
      if (settings_.supervise_last_stop) last_stop_ = stop_of(turn);
      return;
    }
    // A second assistant turn in a row begins without the model having stopped.
    if (role_is(turn.message + 1, "assistant")) return;
    if (view_.control_token(end))
      target_[end] = true;
    else
      add_count(notes_, "assistant turns followed by text of the template, without a stop");
  }

  void label_block(std::size_t begin, std::size_t end) {
    const std::size_t first = view_.token_at(begin);
    if (first > 0 && view_.bytes(first - 1).end > begin && !target_[first - 1])
      add_count(notes_, "first tokens that reach into the prompt, not trained on");
    set(first, view_.token_at(end), true);
    const auto stop = end_token(begin, end);
    mask_reasoning(begin, stop ? view_.bytes(*stop).begin : end);
  }

  // The assistant messages whose blocks are trained on.
  std::vector<bool> kept_messages() const {
    const std::vector<bool> shown = shown_messages();
    const bool told =
        !turns_.empty() &&
        std::all_of(rendered_.generation.begin(), rendered_.generation.end(), [&](const auto& b) {
          return b.first == b.second || !messages_of_block(b.first, b.second).empty();
        });
    std::vector<bool> kept(messages_.size(), false);
    bool last = true;
    for (std::size_t m = messages_.size(); m-- > 0;) {
      // Where blocks do not tell whose they are, one may be that of a message without text.
      if (!role_is(static_cast<std::int32_t>(m), "assistant") || (!shown[m] && told)) continue;
      kept[m] = is_trained_on(messages_, m) && (last || !settings_.mask_history);
      last = false;
    }
    return kept;
  }

  // The assistant messages whose text is in a block, in a block without such text that whose turn
  // it is in or, behind the turns of all, the last one's. Empty where none of these tells.
  std::vector<std::int32_t> messages_of_block(std::size_t begin, std::size_t end) const {
    std::vector<std::int32_t> of;
    for (const text::Segment& s : rendered_.segments) {
      if (s.origin == text::Origin::kData && s.begin < s.end && s.begin < end && begin < s.end &&
          role_is(s.message, "assistant"))
        of.push_back(s.message);
    }
    if (!of.empty()) return of;
    for (const Turn& turn : turns_)
      if (turn.begin < end && begin < turn.end) of.push_back(turn.message);
    if (of.empty() && all_have_turns() && begin >= turns_.back().end)
      of.push_back(turns_.back().message);
    return of;
  }

  bool all_have_turns() const {
    for (std::size_t m = 0; m < messages_.size(); ++m) {
      const auto number = static_cast<std::int32_t>(m);
      const auto is_its = [&](const Turn& turn) { return turn.message == number; };
      if (role_is(number, "assistant") && std::none_of(turns_.begin(), turns_.end(), is_its))
        return false;
    }
    return !turns_.empty();
  }

  // Of a block that no message is known of. Error where the messages differ.
  bool keeps_all_or_none(const std::vector<bool>& kept) const {
    std::optional<bool> all;
    for (std::size_t m = 0; m < kept.size(); ++m) {
      if (!role_is(static_cast<std::int32_t>(m), "assistant")) continue;
      if (all && *all != kept[m])
        fail(
            cat("the chat template has a generation block with no text of a message in it, so "
                "whether it belongs to messages[",
                m, "] is unclear and ",
                settings_.mask_history ? "dataset.mask_history" : "a weight of 0",
                " cannot be followed; have the template write its turns in a loop over the "
                "messages ({% for message in messages %})"));
      all = kept[m];
    }
    return all.value_or(true);
  }

  // Whether a message has a turn, or text of it is anywhere in the render.
  std::vector<bool> shown_messages() const {
    std::vector<bool> shown(messages_.size(), false);
    for (const Turn& turn : turns_) shown[static_cast<std::size_t>(turn.message)] = true;
    for (const text::Segment& s : rendered_.segments) {
      if (s.origin == text::Origin::kData && s.message >= 0 && s.begin < s.end)
        shown[static_cast<std::size_t>(s.message)] = true;
    }
    return shown;
  }

  bool marked(const Turn& turn) const {
    return std::any_of(rendered_.generation.begin(), rendered_.generation.end(),
                       [&](const auto& b) {
                         return b.first < b.second && b.first < turn.end && turn.begin < b.second;
                       });
  }

  bool stop_is_marked(const Turn& turn) const {
    if (const auto stop = end_token(turn.begin, turn.end)) return target_[*stop];
    const std::size_t next = view_.token_at(turn.end);
    if (role_is(turn.message + 1, "assistant")) return true;
    return next < view_.size() && view_.control_token(next) && target_[next];
  }

  // Takes reasoning out of the targets where the settings ask for it. [begin, end): bytes of the
  // model's own text without its stop.
  void mask_reasoning(std::size_t begin, std::size_t end) {
    if (!settings_.mask_reasoning_content && !settings_.mask_empty_think) return;
    const std::vector<Reasoning> found = find_reasoning(view_, begin, end);
    for (const Reasoning& r : found) {
      if (r.empty && settings_.mask_empty_think) {
        set(view_.token_at(r.begin), view_.token_at(blanks_behind(r.end, end)), false);
        add_count(notes_, "empty think blocks, not trained on");
      } else if (!r.empty && settings_.mask_reasoning_content) {
        set(view_.token_at(r.begin), view_.token_at(r.end), false);
        add_count(notes_, "reasoning blocks, not trained on");
      }
    }
    if (!settings_.mask_reasoning_content) return;
    const std::size_t from = found.empty() ? begin : found.back().end;
    if (view_.text().substr(from, end - from).find("<think>") != std::string_view::npos)
      add_count(notes_, "think tags within answers, trained on with what they hold");
  }

  // Blanks that the template writes behind.
  std::size_t blanks_behind(std::size_t from, std::size_t end) const {
    const std::size_t text = view_.first_text(from, end);
    return std::min(view_.text().find_first_not_of(" \t\r\n", from), text);
  }

  void count_missing() {
    const std::vector<bool> shown = shown_messages();
    std::vector<bool> reasoned(messages_.size(), false);
    for (const text::Segment& s : rendered_.segments) {
      if (s.field == Field::kReasoningContent && s.message >= 0 && s.begin < s.end)
        reasoned[static_cast<std::size_t>(s.message)] = true;
    }
    for (std::size_t m = 0; m < messages_.size(); ++m) {
      const auto number = static_cast<std::int32_t>(m);
      if (!role_is(number, "assistant")) continue;
      if (!shown[m]) add_count(notes_, "assistant turns that the chat template leaves out");
      if (!is_trained_on(messages_, m))
        add_count(notes_, "assistant turns of weight 0, not trained on");
      const std::string_view in_content = inline_reasoning(messages_[m]);
      if ((has_reasoning_field(messages_[m]) && !reasoned[m]) || !shows(number, in_content))
        add_count(notes_, "reasoning blocks that the chat template leaves out");
      const Value* content = messages_[m].find("content");
      if (content != nullptr && content->is_string() && content->size() == 0 &&
          messages_[m].find("tool_calls") == nullptr) {
        add_count(notes_, "assistant turns without text or tool call");
      }
    }
  }

  // Whether a message's turn, or text of it elsewhere, has this text.
  bool shows(std::int32_t m, std::string_view text) const {
    const auto has = [&](const auto& part) {
      return part.message == m &&
             view_.text().substr(part.begin, part.end - part.begin).find(text) !=
                 std::string_view::npos;
    };
    return text.empty() || std::any_of(turns_.begin(), turns_.end(), has) ||
           std::any_of(
               rendered_.segments.begin(), rendered_.segments.end(),
               [&](const text::Segment& s) { return s.origin == text::Origin::kData && has(s); });
  }

  ChatLabels finish() {
    ChatLabels out;
    const std::size_t n = view_.size();
    out.labels.assign(n, kNoLabel);
    for (std::size_t t = 1; t < n; ++t) {
      if (target_[t]) out.labels[t - 1] = view_.id(t);
    }
    if (n > 0 && last_stop_ >= 0) out.labels[n - 1] = last_stop_;
    out.notes = std::move(notes_);
    return out;
  }

  const RenderedView view_;
  const text::Rendered& rendered_;
  const Value::Array& messages_;
  const TurnFrame& frame_;
  const ChatSettings& settings_;
  const std::vector<Turn> turns_;
  std::vector<bool> target_;  // per token: whether its predecessor is to predict it
  std::int32_t last_stop_ = -1;
  std::vector<Count> notes_;
};

}  // namespace

bool is_trained_on(const Value::Array& messages, std::size_t message) {
  const Value* weight = messages[message].find("weight");
  if (weight == nullptr || weight->is_null()) return true;
  const bool zero = *weight == Value(0) || *weight == Value(0.0) || *weight == Value(false);
  const bool one = *weight == Value(1) || *weight == Value(1.0) || *weight == Value(true);
  if (!zero && !one) {
    fail(cat("messages[", message, "].weight: expected 0 (the turn is not trained on) or 1, found ",
             io::to_json(*weight)));
  }
  return one;
}

ChatLabels label_chat(const text::Rendered& rendered, const text::Encoding& tokens,
                      const Value::Array& messages, const TurnFrame& frame,
                      const text::Tokenizer& tokenizer, const ChatSettings& settings,
                      bool has_generation_blocks) {
  Labeller labeller(rendered, tokens, messages, frame, tokenizer, settings);
  return has_generation_blocks ? labeller.by_generation_blocks() : labeller.by_turns();
}

}  // namespace glmtune::data
