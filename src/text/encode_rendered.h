#pragma once
// From rendered chat to tokens: text that users wrote never becomes a control token.
#include <cstddef>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace glmtune::text {

struct RenderedTokens {
  Encoding tokens;  // offsets are bytes of Rendered::text
  // Spellings of added tokens that touch text of users and were encoded as ordinary text; 0 when
  // control tokens are allowed.
  std::size_t control_spellings = 0;
};

struct EncodeRenderedOptions {
  bool allow_control_tokens = false;  // match added tokens in users' text too, as transformers does
};

// Added tokens are matched in pieces of origin kTemplate and kSetting, and in a message's role
// where that is a plain word (templates spell `<|` role `|>`). Between two matches the text is
// encoded as one, across the borders of pieces: ids equal transformers' except where users' text
// spells an added token.
RenderedTokens encode_rendered(const Tokenizer& tokenizer, const Rendered& rendered,
                               EncodeCache& cache, const EncodeRenderedOptions& options = {});

}  // namespace glmtune::text
