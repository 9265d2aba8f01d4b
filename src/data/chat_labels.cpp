#include "data/chat_labels.h"

#include <algorithm>
#include <string_view>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::data {
namespace {

using io::Value;
using text::Field;
using text::Origin;

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";
constexpr std::string_view kSpace = " \t\r\n";

bool blank(std::string_view s) {
  return s.find_first_not_of(kSpace) == std::string_view::npos;
}

std::string_view trim_end(std::string_view s) {
  const std::size_t last = s.find_last_not_of(kSpace);
  return last == std::string_view::npos ? std::string_view() : s.substr(0, last + 1);
}

class Labeller {
 public:
  Labeller(const text::Rendered& rendered, const text::Encoding& tokens,
           const Value::Array& messages, const TurnFrame& frame, const text::Tokenizer& tokenizer,
           const ChatSettings& settings)
      : rendered_(rendered),
        tokens_(tokens),
        messages_(messages),
        frame_(frame),
        tokenizer_(tokenizer),
        settings_(settings),
        target_(tokens.ids.size(), false) {}

  ChatLabels by_turns() {
    const std::vector<Turn> turns = find_turns(rendered_, messages_);
    count_missing(turns);
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (settings_.mask_history && i + 1 < turns.size()) continue;
      label_turn(turns[i]);
    }
    return finish();
  }

  ChatLabels by_generation_blocks() {
    const std::vector<Turn> turns = find_turns(rendered_, messages_);
    count_missing(turns);
    const auto& blocks = rendered_.generation;
    for (const Turn& turn : turns) {
      const bool marked = std::any_of(blocks.begin(), blocks.end(), [&](const auto& block) {
        return block.first < block.second && block.first < turn.end && turn.begin < block.second;
      });
      if (!marked) add_count(notes_, "assistant turns outside the template's generation blocks");
    }
    // Blocks of the last assistant turn: all of them from where that turn begins.
    const std::size_t from =
        settings_.mask_history && !turns.empty() ? turns.back().begin : std::size_t{0};
    for (const auto& [begin, end] : blocks) {
      if (begin < from || begin == end) continue;
      const std::size_t first = token_at(begin);
      set(first, token_at(end), true);
      mask_thinking(begin, end);
    }
    return finish();
  }

 private:
  // The first token that begins at or after a byte.
  std::size_t token_at(std::size_t byte) const {
    const auto it =
        std::lower_bound(tokens_.offsets.begin(), tokens_.offsets.end(), byte,
                         [](const text::ByteRange& r, std::size_t at) { return r.begin < at; });
    return static_cast<std::size_t>(it - tokens_.offsets.begin());
  }

  const text::Segment* segment_at(std::size_t byte) const {
    const auto it =
        std::upper_bound(rendered_.segments.begin(), rendered_.segments.end(), byte,
                         [](std::size_t at, const text::Segment& s) { return at < s.end; });
    return it == rendered_.segments.end() ? nullptr : &*it;
  }

  bool control_token(std::size_t t) const {
    if (t >= tokens_.ids.size() || tokenizer_.added_token(tokens_.ids[t]) == nullptr) return false;
    const text::Segment* s = segment_at(tokens_.offsets[t].begin);
    return s != nullptr && s->origin != Origin::kData;
  }

  void set(std::size_t first, std::size_t end, bool value) {
    for (std::size_t t = first; t < end; ++t) target_[t] = value;
  }

  const Value& message(std::int32_t m) const { return messages_[static_cast<std::size_t>(m)]; }

  bool role_is(std::size_t m, const char* role) const {
    const Value* r = m < messages_.size() ? messages_[m].find("role") : nullptr;
    return r != nullptr && *r == Value(role);
  }

  // The byte where the model's own text of a turn begins: behind what its prompt shares with the
  // turn, in whole tokens. A token that begins inside the prompt and ends behind it is no target:
  // no model has to emit it after the prompt.
  std::size_t own_text(const Turn& turn) {
    const bool after_tool =
        turn.message > 0 && role_is(static_cast<std::size_t>(turn.message) - 1, "tool");
    const std::string_view prompt =
        after_tool ? frame_.prompt_after_tool : frame_.prompt_after_user;
    const std::string_view text =
        std::string_view(rendered_.text).substr(turn.begin, turn.end - turn.begin);
    const std::size_t shared = static_cast<std::size_t>(
        std::mismatch(prompt.begin(), prompt.end(), text.begin(), text.end()).first -
        prompt.begin());
    std::size_t t = token_at(turn.begin);
    const std::size_t end = token_at(turn.end);
    const std::size_t first = t;
    while (t < end && tokens_.offsets[t].end <= turn.begin + shared) ++t;
    // A turn that is not framed like the prompt: all the template writes before the text is header.
    if (t == first) {
      while (t < end && own_header(tokens_.offsets[t].begin)) ++t;
    } else if (t < end && shared == prompt.size() &&
               tokens_.offsets[t].begin < turn.begin + shared) {
      ++t;
      add_count(notes_, "first tokens that reach into the prompt, not trained on");
    }
    return t < end ? tokens_.offsets[t].begin : turn.end;
  }

  bool own_header(std::size_t byte) const {
    const text::Segment* s = segment_at(byte);
    return s != nullptr && (s->origin != Origin::kData || s->field == Field::kRole);
  }

  void label_turn(const Turn& turn) {
    const std::size_t own = own_text(turn);
    const std::size_t first = token_at(settings_.supervise_role_header ? turn.begin : own);
    std::size_t end = token_at(turn.end);
    if (frame_.closes_turns) {
      // The end token is the last thing the model emits; blanks behind it are the frame's.
      for (std::size_t t = end; t > first; --t) {
        if (!control_token(t - 1)) continue;
        end = t;
        break;
      }
    }
    set(first, end, true);
    mask_thinking(own, turn.end);
    if (!frame_.closes_turns && settings_.supervise_next_role) label_stop(turn, end);
  }

  void label_stop(const Turn& turn, std::size_t end) {
    if (end < tokens_.ids.size()) {
      // A second assistant turn in a row begins without the model having stopped.
      if (role_is(static_cast<std::size_t>(turn.message) + 1, "assistant")) return;
      if (control_token(end))
        target_[end] = true;
      else
        add_count(notes_, "assistant turns followed by text of the template, without a stop");
      return;
    }
    const bool calls = message(turn.message).find("tool_calls") != nullptr;
    const std::int32_t stop = calls ? frame_.stop_before_tool : frame_.stop_before_user;
    if (!settings_.supervise_last_stop || stop < 0) return;
    last_stop_ = stop;
  }

  // Takes thinking out of the targets where the settings ask for it. `own`: where the model's own
  // text begins; end: of its turn.
  void mask_thinking(std::size_t own, std::size_t end) {
    if (!settings_.mask_reasoning_content && !settings_.mask_empty_think) return;
    const std::string_view text = rendered_.text;
    std::size_t inner = text.find_first_not_of(kSpace, own);
    inner = std::min(inner, end);
    std::size_t block = inner;
    if (text.substr(inner).starts_with(kThink)) {
      inner += kThink.size();
    } else if (trim_end(text.substr(0, own)).ends_with(kThink)) {
      block = inner = own;
    } else if (!text.substr(inner).starts_with(kEndThink)) {
      return;
    }
    std::size_t close = find_close(inner, end);
    if (close == std::string_view::npos) return;
    const bool empty = blank(text.substr(inner, close - inner));
    close += kEndThink.size();
    if (empty && settings_.mask_empty_think) {
      const std::size_t next = std::min(text.find_first_not_of(kSpace, close), end);
      const text::Segment* s = segment_at(close);
      if (s != nullptr && s->origin != Origin::kData) close = std::min(next, s->end);
      set(token_at(own), token_at(close), false);
      add_count(notes_, "empty think blocks, not trained on");
    } else if (!empty && settings_.mask_reasoning_content) {
      set(token_at(block), token_at(close), false);
      add_count(notes_, "reasoning blocks, not trained on");
    }
  }

  // "</think>" as the template wrote it, else as the text spells it.
  std::size_t find_close(std::size_t from, std::size_t end) const {
    const std::string_view text = std::string_view(rendered_.text).substr(0, end);
    const std::size_t first = text.find(kEndThink, from);
    for (std::size_t at = first; at != std::string_view::npos; at = text.find(kEndThink, at + 1)) {
      const text::Segment* s = segment_at(at);
      if (s != nullptr && s->origin != Origin::kData) return at;
    }
    return first;
  }

  void count_missing(const std::vector<Turn>& turns) {
    std::vector<bool> rendered(messages_.size(), false);
    std::vector<bool> reasoned(messages_.size(), false);
    for (const Turn& turn : turns) rendered[static_cast<std::size_t>(turn.message)] = true;
    for (const text::Segment& s : rendered_.segments) {
      if (s.field == Field::kReasoningContent && s.message >= 0 && s.begin < s.end) {
        reasoned[static_cast<std::size_t>(s.message)] = true;
      }
    }
    for (std::size_t m = 0; m < messages_.size(); ++m) {
      if (!role_is(m, "assistant")) continue;
      const Value* reasoning = messages_[m].find("reasoning_content");
      if (reasoning != nullptr && reasoning->is_string() && !blank(reasoning->as_string()) &&
          !reasoned[m]) {
        add_count(notes_, "reasoning blocks that the chat template leaves out");
      }
      if (!rendered[m]) add_count(notes_, "assistant turns that the chat template leaves out");
      const Value* content = messages_[m].find("content");
      if (content != nullptr && content->is_string() && content->size() == 0 &&
          messages_[m].find("tool_calls") == nullptr) {
        add_count(notes_, "assistant turns without text or tool call");
      }
    }
  }

  ChatLabels finish() {
    ChatLabels out;
    const std::size_t n = tokens_.ids.size();
    out.labels.assign(n, kNoLabel);
    for (std::size_t t = 1; t < n; ++t) {
      if (target_[t]) out.labels[t - 1] = tokens_.ids[t];
    }
    if (n > 0 && last_stop_ >= 0) out.labels[n - 1] = last_stop_;
    out.notes = std::move(notes_);
    return out;
  }

  const text::Rendered& rendered_;
  const text::Encoding& tokens_;
  const Value::Array& messages_;
  const TurnFrame& frame_;
  const text::Tokenizer& tokenizer_;
  const ChatSettings& settings_;
  std::vector<bool> target_;  // per token: whether its predecessor is to predict it
  std::int32_t last_stop_ = -1;
  std::vector<Count> notes_;
};

}  // namespace

ChatLabels label_chat(const text::Rendered& rendered, const text::Encoding& tokens,
                      const Value::Array& messages, const TurnFrame& frame,
                      const text::Tokenizer& tokenizer, const ChatSettings& settings,
                      bool has_generation_blocks) {
  Labeller labeller(rendered, tokens, messages, frame, tokenizer, settings);
  return has_generation_blocks ? labeller.by_generation_blocks() : labeller.by_turns();
}

}  // namespace glmtune::data
