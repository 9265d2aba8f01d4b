#pragma once
// Short conversations that are rendered when a data set is opened, to see what a template does.
#include "io/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace glmtune::data {

// Messages of the probes.
io::Value probe_message(const char* role, const char* content);
io::Value probe_call();    // of the assistant, with one tool call
io::Value probe_result();  // of that tool

class Probe {
 public:
  // `options` holds the context variables beside messages, tools and add_generation_prompt.
  Probe(const text::ChatTemplate& chat_template, const text::Tokenizer& tokenizer,
        const io::Value& options);

  // The conversation as it is rendered: behind a system turn where the template demands one.
  io::Value::Array conversation(io::Value::Array messages) const;
  // Error where the template refuses it.
  text::Rendered render(const io::Value::Array& conversation, bool generation_prompt) const;
  text::Encoding encode(const text::Rendered& rendered) const;

 private:
  text::Rendered try_render(const io::Value::Array& conversation, bool generation_prompt) const;

  const text::ChatTemplate& template_;
  const text::Tokenizer& tokenizer_;
  const io::Value& options_;
  bool system_first_ = false;
};

}  // namespace glmtune::data
