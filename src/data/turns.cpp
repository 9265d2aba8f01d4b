// find_turns and probe_turns.
#include <algorithm>

#include "base/cat.h"
#include "base/error.h"
#include "data/chat_labels.h"
#include "text/encode_rendered.h"

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

Value message(const char* role, const char* content) {
  Value m{Value::Object{}};
  m.set("role", role);
  m.set("content", content);
  return m;
}

Value tool_call_message() {
  Value function{Value::Object{}};
  function.set("name", "f");
  function.set("arguments", Value(Value::Object{}));
  Value call{Value::Object{}};
  call.set("id", "call00001");
  call.set("type", "function");
  call.set("function", std::move(function));
  Value m = message("assistant", "");
  m.set("tool_calls", Value(Value::Array{std::move(call)}));
  return m;
}

class Probe {
 public:
  Probe(const text::ChatTemplate& chat_template, const text::Tokenizer& tokenizer,
        const Value& options)
      : template_(chat_template), tokenizer_(tokenizer), options_(options) {}

  Rendered render(const Value::Array& messages, bool generation_prompt) const {
    Value context{Value::Object{}};
    context.set("messages", Value(messages));
    context.set("tools", Value());
    context.set("add_generation_prompt", generation_prompt);
    for (const auto& [key, value] : options_.as_object()) context.set(key, value);
    return template_.render(context);
  }

  // What add_generation_prompt appends after these messages.
  std::string generation_prompt(const Value::Array& messages) const {
    const std::string plain = render(messages, false).text;
    const std::string prompted = render(messages, true).text;
    if (!prompted.starts_with(plain)) return "";
    return prompted.substr(plain.size());
  }

  struct Ending {
    bool closed = false;
    std::int32_t next_marker = -1;
  };
  // How the turn of message 1 ends, given what follows it.
  Ending ending(const Value::Array& messages) const {
    const Rendered rendered = render(messages, false);
    const auto turns = find_turns(rendered, messages);
    Ending out;
    if (turns.empty()) return out;
    text::EncodeCache cache;
    const auto tokens = encode_rendered(tokenizer_, rendered, cache).tokens;
    // After the last text of the user, or at the begin of the turn when there is none.
    std::size_t content_end = turns[0].begin;
    for (const auto& s : rendered.segments) {
      if (s.origin == Origin::kData && s.message == 1 && s.field == text::Field::kContent) {
        content_end = s.end;
      }
    }
    for (std::size_t t = 0; t < tokens.ids.size(); ++t) {
      if (tokenizer_.added_token(tokens.ids[t]) == nullptr) continue;
      const std::size_t at = tokens.offsets[t].begin;
      if (at >= content_end && at < turns[0].end) out.closed = true;
      if (at == turns[0].end) out.next_marker = tokens.ids[t];
    }
    return out;
  }

 private:
  const text::ChatTemplate& template_;
  const text::Tokenizer& tokenizer_;
  const Value& options_;
};

}  // namespace

std::vector<Turn> find_turns(const Rendered& rendered, const Value::Array& messages) {
  const std::vector<std::int32_t> owner = owners(rendered);
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < owner.size(); ++i) {
    const auto& segment = rendered.segments[i];
    if (!is_assistant(messages, owner[i]) || segment.begin == segment.end) continue;
    if (!turns.empty() && turns.back().message == owner[i] && turns.back().end == segment.begin) {
      turns.back().end = segment.end;
      continue;
    }
    for (const Turn& turn : turns) {
      if (turn.message == owner[i]) {
        fail(cat("messages[", owner[i],
                 "]: the chat template renders this assistant turn in more than one place, so what "
                 "to train on is unclear; mark it in the template with {% generation %} blocks"));
      }
    }
    turns.push_back({owner[i], segment.begin, segment.end});
  }
  return turns;
}

TurnFrame probe_turns(const text::ChatTemplate& chat_template, const text::Tokenizer& tokenizer,
                      const Value& options) {
  const Probe probe(chat_template, tokenizer, options);
  const Value user = message("user", "x");
  const Value answer = message("assistant", "y");
  TurnFrame frame;
  frame.prompt_after_user = probe.generation_prompt({user});
  if (frame.prompt_after_user.empty() && !chat_template.has_generation_blocks()) {
    fail(
        "the chat template adds no generation prompt, so where the model's own text begins is "
        "unknown; mark it in the template with {% generation %} blocks");
  }
  const Probe::Ending before_user = probe.ending({user, answer, user});
  frame.closes_turns = before_user.closed;
  frame.stop_before_user = before_user.next_marker;
  frame.prompt_after_tool = frame.prompt_after_user;
  frame.stop_before_tool = frame.stop_before_user;
  Value result = message("tool", "z");
  result.set("tool_call_id", "call00001");
  try {
    const Value call = tool_call_message();
    const std::string after_tool = probe.generation_prompt({user, call, result});
    if (!after_tool.empty()) frame.prompt_after_tool = after_tool;
    const Probe::Ending before_tool = probe.ending({user, call, result});
    if (before_tool.next_marker >= 0) frame.stop_before_tool = before_tool.next_marker;
  } catch (const text::TemplateError&) {
    // A template without tools: its turns all end as before a user's.
  }
  return frame;
}

}  // namespace glmtune::data
