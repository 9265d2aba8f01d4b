#pragma once
// StreamDecoder: text from ids that come one at a time. What it gives, put together, is what
// Tokenizer::decode makes of all ids at once; a character whose bytes are spread over several
// tokens comes out when it is complete.
#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace glmtune::text {

class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, const DecodeOptions& options = {})
      : tokenizer_(std::move(tokenizer)), options_(options) {}

  // The text that is final with this id; empty while a character is unfinished. An id the
  // tokenizer does not have is an error.
  std::string push(std::int32_t id);
  // What is left, an unfinished character as U+FFFD; begins anew.
  std::string finish();
  bool unfinished() const { return !held_.empty(); }

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  std::string held_;  // bytes of a character whose rest is missing
};

}  // namespace glmtune::text
