// find_turns and probe_turns.
#include <algorithm>

#include "base/error.h"
#include "data/chat_labels.h"
#include "data/probe.h"
#include "data/rendered_view.h"

namespace glmtune::data {
namespace {

using io::Value;
using text::Origin;
using text::Rendered;

bool is_assistant(const Value::Array& messages, std::int32_t m) {
  if (m < 0 || static_cast<std::size_t>(m) >= messages.size()) return false;
  const Value* role = messages[static_cast<std::size_t>(m)].find("role");
  return role != nullptr && *role == Value("assistant");
}

// For every segment the message whose turn it belongs to. Template text knows; text of users
// belongs to the turn around it, which is not always its own message's (GLM sorts tool results).
std::vector<std::int32_t> owners(const Rendered& rendered) {
  const auto& segments = rendered.segments;
  std::vector<std::int32_t> owner(segments.size(), -1);
  std::vector<std::int32_t> following(segments.size(), -1);
  std::int32_t next = -1;
  for (std::size_t i = segments.size(); i-- > 0;) {
    following[i] = next;
    if (segments[i].origin != Origin::kData) next = segments[i].message;
  }
  std::int32_t before = -1;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::int32_t own = segments[i].message;
    if (segments[i].origin != Origin::kData) {
      owner[i] = before = own;
    } else if (own == before || own == following[i] || before != following[i]) {
      owner[i] = own >= 0 ? own : before;
    } else {
      owner[i] = before;
    }
  }
  return owner;
}

// What add_generation_prompt appends after these messages, from where an answer's turn begins.
GenerationPrompt generation_prompt(const Probe& probe, const Value::Array& before) {
  const Rendered plain = probe.render(before, false);
  const Rendered prompted = probe.render(before, true);
  if (prompted.text == plain.text) return {};
  std::size_t begin = prompted.text.starts_with(plain.text) ? plain.text.size() : 0;
  // Some templates write between the turns only where another follows.
  Value::Array answered = before;
  answered.push_back(probe_message("assistant", "y"));
  const Rendered full = probe.render(answered, false);
  const auto turns = find_turns(full, answered);
  const std::string_view common(full.text.data(), turns.empty() ? 0 : turns.back().begin);
  if (!common.empty() && prompted.text.starts_with(common)) begin = common.size();
  if (begin == 0) return {};
  GenerationPrompt out{.text = prompted.text.substr(begin), .tokens = {}};
  const text::Encoding tokens = probe.encode(prompted);
  for (std::size_t t = 0; t < tokens.ids.size(); ++t) {
    if (tokens.offsets[t].begin < begin) continue;
    out.tokens.ids.push_back(tokens.ids[t]);
    out.tokens.offsets.push_back({tokens.offsets[t].begin - begin, tokens.offsets[t].end - begin});
  }
  return out;
}

// Error where an answer is rendered but has no turn.
void refuse_turns_in_no_loop(const Probe& probe, Value::Array messages) {
  messages.push_back(probe_message("assistant", "y"));
  const Rendered full = probe.render(messages, false);
  const auto answer = static_cast<std::int32_t>(messages.size()) - 1;
  const bool shown =
      std::any_of(full.segments.begin(), full.segments.end(), [&](const text::Segment& s) {
        return RenderedView::is_text(s) && s.message == answer && s.begin < s.end;
      });
  if (shown && find_turns(full, messages).empty())
    fail(
        "the chat template does not write its turns in a loop over the messages, so where the "
        "model's own text begins is unknown; mark it in the template with {% generation %} blocks");
}

struct Ending {
  std::int32_t end_token = -1;
  std::int32_t next_marker = -1;
};
// How the turn of a message ends, given what follows it.
Ending ending(const Probe& probe, const text::Tokenizer& tokenizer, const Value::Array& messages,
              std::size_t message) {
  const Rendered rendered = probe.render(messages, false);
  const text::Encoding tokens = probe.encode(rendered);
  const RenderedView view(rendered, tokens, tokenizer);
  Ending out;
  for (const Turn& turn : find_turns(rendered, messages)) {
    if (turn.message != static_cast<std::int32_t>(message)) continue;
    const auto end = view.last_control_token(turn.begin, turn.end);
    const std::size_t next = view.token_at(turn.end);
    out.end_token = end ? view.id(*end) : -1;
    out.next_marker = view.control_token(next) ? view.id(next) : -1;
  }
  return out;
}

}  // namespace

std::vector<Turn> find_turns(const Rendered& rendered, const Value::Array& messages) {
  const std::vector<std::int32_t> owner = owners(rendered);
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < owner.size(); ++i) {
    const auto& segment = rendered.segments[i];
    if (!is_assistant(messages, owner[i]) || segment.begin == segment.end) continue;
    if (!turns.empty() && turns.back().message == owner[i] && turns.back().end == segment.begin)
      turns.back().end = segment.end;
    else
      turns.push_back({owner[i], segment.begin, segment.end});
  }
  return turns;
}

TurnFrame probe_turns(const text::ChatTemplate& chat_template, const text::Tokenizer& tokenizer,
                      const Value& options) {
  const Probe probe(chat_template, tokenizer, options);
  const Value user = probe_message("user", "x");
  const Value answer = probe_message("assistant", "y");
  TurnFrame frame;
  const Value::Array question = probe.conversation({user});
  const std::size_t turn = question.size();
  frame.after_user = generation_prompt(probe, question);
  if (frame.after_user.text.empty() && !chat_template.has_generation_blocks()) {
    fail(
        "the chat template adds no generation prompt, so where the model's own text begins is "
        "unknown; mark it in the template with {% generation %} blocks");
  }
  if (!chat_template.has_generation_blocks()) refuse_turns_in_no_loop(probe, question);
  const auto learn = [&](const Value::Array& messages) {
    const Ending found = ending(probe, tokenizer, messages, turn);
    const auto& ends = frame.end_tokens;
    if (found.end_token >= 0 && std::find(ends.begin(), ends.end(), found.end_token) == ends.end())
      frame.end_tokens.push_back(found.end_token);
    return found.end_token >= 0 ? found.end_token : found.next_marker;
  };
  frame.stop_after_answer = learn(probe.conversation({user, answer, user}));
  const bool closes = frame.closes_turns();
  if (closes) learn(probe.conversation({user, answer}));
  frame.after_tool = frame.after_user;
  frame.stop_after_call = frame.stop_after_answer;
  try {
    const Value::Array called = probe.conversation({user, probe_call(), probe_result()});
    GenerationPrompt after_tool = generation_prompt(probe, called);
    if (!after_tool.text.empty()) frame.after_tool = std::move(after_tool);
    const Ending call = ending(probe, tokenizer, called, turn);
    const std::int32_t stop = closes ? call.end_token : call.next_marker;
    if (stop < 0) return frame;
    frame.stop_after_call = stop;
    if (closes) learn(called);
  } catch (const text::TemplateError&) {
    // A template without tools: its turns all end as before a user's.
  }
  return frame;
}

}  // namespace glmtune::data
