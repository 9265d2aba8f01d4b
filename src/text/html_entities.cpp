#include "text/html_entities.h"

#include <algorithm>

#include "text/unicode.h"

namespace glmtune::text {
namespace {

// Characters of a name that are looked at.
constexpr std::size_t kLongestName = 32;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

std::string of_number(char32_t code) {
  const auto found = std::find_if(kNumberedEntities.begin(), kNumberedEntities.end(),
                                  [&](const NumberedEntity& e) { return e.code == code; });
  if (found != kNumberedEntities.end()) return std::string(found->text);
  std::string out;
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    append_utf8(out, 0xFFFD);
  } else if ((code < 0xFDD0 || code > 0xFDEF) && (code & 0xFFFEU) != 0xFFFE) {
    append_utf8(out, code);
  }  // others are no characters and leave nothing
  return out;
}

Entity numbered(std::string_view text) {
  const bool hex = text.size() > 2 && (text[2] == 'x' || text[2] == 'X');
  const int base = hex ? 16 : 10;
  const std::size_t begin = hex ? 3 : 2;
  std::size_t end = begin;
  char32_t code = 0;
  for (; end < text.size() && digit_of(text[end]) < base; ++end) {
    code = std::min<char32_t>(
        code * static_cast<char32_t>(base) + static_cast<char32_t>(digit_of(text[end])), 0x110000);
  }
  if (end == begin) return {};
  if (end < text.size() && text[end] == ';') ++end;
  return {end, of_number(code)};
}

}  // namespace

Entity read_entity(std::string_view text) {
  if (text.size() > 1 && text[1] == '#') return numbered(text);
  std::size_t end = 1;
  for (std::size_t n = 0; n < kLongestName && end < text.size(); ++n) {
    if (std::string_view("\t\n\f <&#;").find(text[end]) != std::string_view::npos) break;
    end += decode_utf8(text, end).length;
  }
  if (end > 1 && end < text.size() && text[end] == ';') ++end;
  // The longest name that the text begins with.
  for (; end > 2; --end) {
    const std::string_view name = text.substr(1, end - 1);
    const auto found =
        std::lower_bound(kNamedEntities.begin(), kNamedEntities.end(), name,
                         [](const NamedEntity& e, std::string_view n) { return e.name < n; });
    if (found != kNamedEntities.end() && found->name == name)
      return {end, std::string(found->text)};
  }
  return {};
}

}  // namespace glmtune::text
