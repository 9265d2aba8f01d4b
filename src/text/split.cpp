#include "text/split.h"

namespace glmtune::text {
namespace {

constexpr std::string_view kGlm =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// Length of a contraction ('s 't 're 've 'm 'll 'd, in any case) that begins with the apostrophe
// at text[pos], or 0. U+017F (long s) is the one other character that folds into these letters.
std::size_t contraction(std::string_view text, std::size_t pos) {
  if (pos + 1 >= text.size()) return 0;
  const char a = lower(text[pos + 1]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (text.substr(pos + 1, 2) == "\xC5\xBF") return 3;
  if (pos + 2 >= text.size()) return 0;
  const char b = lower(text[pos + 2]);
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

bool is_line_break(char32_t code) {
  return code == '\n' || code == '\r';
}

}  // namespace

std::optional<Splitter> Splitter::recognise(std::string_view regex) {
  if (regex == kGlm) return Splitter(3, false);
  if (regex == kQwen) return Splitter(1, false);
  if (regex == kCl100k) return Splitter(3, true);
  return std::nullopt;
}

std::size_t Splitter::word_end(std::string_view text, std::size_t pos) const {
  const CodeTable& classes = *classes_;
  const auto class_at = [&](std::size_t i, std::size_t& length) -> CharClass {
    const Decoded d = decode_utf8(text, i);
    length = d.length;
    return static_cast<CharClass>(classes[d.code]);
  };
  const auto run_end = [&](std::size_t i, CharClass wanted) {
    std::size_t length = 0;
    while (i < text.size() && class_at(i, length) == wanted) i += length;
    return i;
  };

  const Decoded first = decode_utf8(text, pos);
  const auto first_class = static_cast<CharClass>(classes[first.code]);
  if (first.code == '\'') {
    if (const std::size_t length = contraction(text, pos); length > 0) return pos + length;
  }
  if (first_class == kLetter) return run_end(pos + first.length, kLetter);
  if (first_class == kNumber) {
    std::size_t i = pos + first.length;
    std::size_t length = 0;
    for (int n = 1; n < max_digits_ && i < text.size() && class_at(i, length) == kNumber; ++n) {
      i += length;
    }
    return i;
  }

  const std::size_t second = pos + first.length;
  std::size_t second_length = 0;
  const bool has_second = second < text.size();
  const CharClass second_class = has_second ? class_at(second, second_length) : kSpace;
  if (has_second && second_class == kLetter && !is_line_break(first.code)) {
    return run_end(second + second_length, kLetter);
  }
  if (first_class == kOther || (first.code == ' ' && has_second && second_class == kOther)) {
    std::size_t i = run_end(second, kOther);
    while (i < text.size() && is_line_break(static_cast<unsigned char>(text[i]))) ++i;
    return i;
  }

  // White space: up to and including the last line break of the run; else all of it at the end of
  // the text, or all but the last character, which goes to the next word.
  std::size_t i = pos;
  std::size_t last = pos;         // where the last character of the run begins
  std::size_t after_break = pos;  // behind the last line break of the run
  std::size_t length = 0;
  while (i < text.size() && class_at(i, length) == kSpace) {
    last = i;
    i += length;
    if (is_line_break(static_cast<unsigned char>(text[last]))) after_break = i;
  }
  if (whole_trailing_space_ && i == text.size()) return i;
  if (after_break > pos) return after_break;
  return i == text.size() || last == pos ? i : last;
}

}  // namespace glmtune::text
