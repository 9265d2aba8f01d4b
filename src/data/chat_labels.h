#pragma once
// Which tokens of a rendered chat are trained on. Everything is read off one render and its
// segments (which message wrote which bytes), so templates that rewrite or drop earlier turns need
// no special care.
//
// A target is a token the model itself must emit: an assistant turn without what the generation
// prompt already gives, up to and including its stop. The stop is the turn's own end token
// (ChatML's <|im_end|>), or, in templates without one (GLM), the role marker that follows. After
// the last turn GLM's stop is a label without an input token. Templates with generation blocks say
// themselves what is trained on; only the masks are applied to them.
#include <cstdint>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/settings.h"
#include "io/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace glmtune::data {

// How a template frames assistant turns; found by rendering short probe conversations.
struct TurnFrame {
  std::string prompt_after_user;  // the generation prompt, also what precedes a turn's own text
  std::string prompt_after_tool;
  bool closes_turns = false;           // turns end with a token of their own
  std::int32_t stop_before_user = -1;  // the marker that follows a turn; -1: none is known
  std::int32_t stop_before_tool = -1;  // the same after a turn that ends in a tool call
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
// The assistant turns of a render in order; messages the template leaves out have none.
std::vector<Turn> find_turns(const text::Rendered& rendered, const io::Value::Array& messages);

struct ChatLabels {
  std::vector<std::int32_t> labels;  // per token, shifted; the last may be a stop
  std::vector<Count> notes;
};

ChatLabels label_chat(const text::Rendered& rendered, const text::Encoding& tokens,
                      const io::Value::Array& messages, const TurnFrame& frame,
                      const text::Tokenizer& tokenizer, const ChatSettings& settings,
                      bool has_generation_blocks);

}  // namespace glmtune::data
