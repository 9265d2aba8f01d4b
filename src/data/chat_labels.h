#pragma once
// Which tokens of a rendered chat are trained on. Everything is read off one render and its
// segments (which message wrote which bytes), so templates that rewrite or drop earlier turns need
// no special care.
//
// A target is a token the model itself must emit: an assistant turn without what the generation
// prompt already gives, up to and including its stop. The stop is the turn's own end token
// (ChatML's <|im_end|>), or, in templates without one (GLM), the role marker that follows. Where
// the render ends without the last turn's stop, it is a label without an input token. Templates
// with generation blocks say themselves what is trained on; only the masks are applied to them: a
// block is that of the messages whose text it holds.
#include <cstdint>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/settings.h"
#include "io/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace glmtune::data {

// What precedes a turn's own text, from the turn's begin on.
struct GenerationPrompt {
  std::string text;
  text::Encoding tokens;  // offsets are bytes of `text`
};

// How a template frames assistant turns; found by rendering short probe conversations.
struct TurnFrame {
  GenerationPrompt after_user;
  GenerationPrompt after_tool;
  // Tokens of their own that turns end with; empty where the role marker that follows ends them.
  std::vector<std::int32_t> end_tokens;
  std::int32_t stop_after_answer = -1;  // end token or following marker; -1: none is known
  std::int32_t stop_after_call = -1;    // the same for a turn that ends in a tool call
  bool closes_turns() const { return !end_tokens.empty(); }
};

// `options` holds the context variables beside messages, tools and add_generation_prompt. Throws
// Error when the template does not tell where assistant turns begin.
TurnFrame probe_turns(const text::ChatTemplate& chat_template, const text::Tokenizer& tokenizer,
                      const io::Value& options);

// Bytes [begin, end) of the render that message `message` wrote.
struct Turn {
  std::int32_t message = -1;
  std::size_t begin = 0;
  std::size_t end = 0;
};
// OpenAI's "weight" of an assistant message: 0 (0.0, false) leaves its turn out of the targets, 1
// (or none) is as usual. Throws Error for anything else.
bool is_trained_on(const io::Value::Array& messages, std::size_t message);

// The assistant turns of a render in order; messages the template leaves out have none, and those
// it renders in several places have several.
std::vector<Turn> find_turns(const text::Rendered& rendered, const io::Value::Array& messages);

struct ChatLabels {
  std::vector<std::int32_t> labels;  // per token, shifted; the last may be a stop
  std::vector<Count> notes;
};

ChatLabels label_chat(const text::Rendered& rendered, const text::Encoding& tokens,
                      const io::Value::Array& messages, const TurnFrame& frame,
                      const text::Tokenizer& tokenizer, const ChatSettings& settings,
                      bool has_generation_blocks);

// What of assistant turns these settings never train on with this template, each with the setting
// or the reason: read off the labels of a probe conversation, but for empty think blocks, which
// are listed where the setting is on. Throws Error where the template refuses all probes.
std::vector<std::string> never_trained(const text::ChatTemplate& chat_template,
                                       const text::Tokenizer& tokenizer, const io::Value& options,
                                       const TurnFrame& frame, const ChatSettings& settings);

}  // namespace glmtune::data
