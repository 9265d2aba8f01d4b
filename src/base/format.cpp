#include "base/format.h"

#include <string_view>

namespace glmtune {

std::string grouped(std::int64_t n) {
  std::string text = std::to_string(n);
  const std::size_t first = n < 0 ? 2 : 1;  // no comma in front of the first digit
  for (std::size_t at = text.size(); at > first + 2; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

}  // namespace glmtune
