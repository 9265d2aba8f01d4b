#include "data/probe.h"

#include "base/cat.h"
#include "base/error.h"
#include "text/encode_rendered.h"

namespace glmtune::data {

using io::Value;
using text::Rendered;

Value probe_message(const char* role, const char* content) {
  return Value(Value::Object{{"role", role}, {"content", content}});
}

Value probe_call() {
  Value function(Value::Object{{"name", "f"}, {"arguments", Value(Value::Object{})}});
  Value call(
      Value::Object{{"id", "call00001"}, {"type", "function"}, {"function", std::move(function)}});
  Value m = probe_message("assistant", "");
  m.set("tool_calls", Value(Value::Array{std::move(call)}));
  return m;
}

Value probe_result() {
  Value m = probe_message("tool", "z");
  m.set("tool_call_id", "call00001");
  return m;
}

Probe::Probe(const text::ChatTemplate& chat_template, const text::Tokenizer& tokenizer,
             const Value& options)
    : template_(chat_template), tokenizer_(tokenizer), options_(options) {
  const Value::Array user{probe_message("user", "x")};
  try {
    try_render(user, false);
  } catch (const text::TemplateError&) {
    system_first_ = true;
    try {
      try_render(conversation(user), false);
    } catch (const text::TemplateError&) {
      system_first_ = false;
    }
  }
}

Value::Array Probe::conversation(Value::Array messages) const {
  if (system_first_) messages.insert(messages.begin(), probe_message("system", "w"));
  return messages;
}

Rendered Probe::try_render(const Value::Array& conversation, bool generation_prompt) const {
  Value context{Value::Object{}};
  context.set("messages", Value(conversation));
  context.set("tools", Value());
  context.set("add_generation_prompt", generation_prompt);
  for (const auto& [key, value] : options_.as_object()) context.set(key, value);
  return template_.render(context);
}

Rendered Probe::render(const Value::Array& conversation, bool generation_prompt) const {
  try {
    return try_render(conversation, generation_prompt);
  } catch (const text::TemplateError& e) {
    std::string roles;
    for (const Value& m : conversation)
      roles += cat(roles.empty() ? "" : ", ", m.find("role")->as_string());
    throw text::TemplateError(
        cat(e.what(), " (in a conversation of short texts (", roles,
            ") that is rendered to learn how the template frames assistant turns, not in a row)"),
        e.kind, e.line, e.message_index);
  }
}

text::Encoding Probe::encode(const Rendered& rendered) const {
  text::EncodeCache cache;
  return text::encode_rendered(tokenizer_, rendered, cache).tokens;
}

}  // namespace glmtune::data
