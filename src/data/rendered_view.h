#pragma once
// A rendered chat and its tokens, with the questions that masks ask of them. Positions are bytes of
// the render, or indexes of tokens.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace glmtune::data {

class RenderedView {
 public:
  RenderedView(const text::Rendered& rendered, const text::Encoding& tokens,
               const text::Tokenizer& tokenizer)
      : rendered_(rendered), tokens_(tokens), tokenizer_(tokenizer) {}

  std::string_view text() const { return rendered_.text; }
  std::size_t size() const { return tokens_.ids.size(); }
  std::int32_t id(std::size_t token) const { return tokens_.ids[token]; }
  text::ByteRange bytes(std::size_t token) const { return tokens_.offsets[token]; }
  // The first token that begins at or after a byte.
  std::size_t token_at(std::size_t byte) const;

  // Text of a row; the role that a header names is the frame's.
  static bool is_text(const text::Segment& s) {
    return s.origin == text::Origin::kData && s.field != text::Field::kRole;
  }
  const text::Segment* segment_at(std::size_t byte) const;  // null behind the last one
  bool frame_at(std::size_t byte) const;                    // no text of a row
  // Where the first text of a row in [begin, end) begins (none: `end`), and where the last ends
  // (none: `begin`).
  std::size_t first_text(std::size_t begin, std::size_t end) const;
  std::size_t last_text(std::size_t begin, std::size_t end) const;

  // An added token that the template wrote.
  bool control_token(std::size_t token) const;
  // The last control token in [begin, end) behind all text of a row there: what ends a turn.
  std::optional<std::size_t> last_control_token(std::size_t begin, std::size_t end) const;

 private:
  std::vector<text::Segment>::const_iterator segment_from(std::size_t byte) const;

  const text::Rendered& rendered_;
  const text::Encoding& tokens_;
  const text::Tokenizer& tokenizer_;
};

}  // namespace glmtune::data
