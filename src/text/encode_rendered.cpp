#include "text/encode_rendered.h"

#include <algorithm>

namespace glmtune::text {
namespace {

bool is_plain_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

}  // namespace

RenderedTokens encode_rendered(const Tokenizer& tokenizer, const Rendered& rendered,
                               EncodeCache& cache, const EncodeRenderedOptions& options) {
  RenderedTokens result;
  if (options.allow_control_tokens) {
    tokenizer.encode(rendered.text, {.match_added_tokens = true}, cache, result.tokens);
    return result;
  }
  std::vector<ByteRange> matchable;
  for (const Segment& s : rendered.segments) {
    const std::string_view text = std::string_view(rendered.text).substr(s.begin, s.end - s.begin);
    if (s.origin != Origin::kData || (s.field == Field::kRole && is_plain_word(text))) {
      matchable.push_back({s.begin, s.end});
    }
  }
  result.control_spellings = tokenizer.encode_where(rendered.text, matchable, cache, result.tokens);
  return result;
}

}  // namespace glmtune::text
