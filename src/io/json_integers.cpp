#include "io/json_integers.h"

#include <algorithm>

namespace glmtune::io {
namespace {

constexpr std::string_view kNumber = "0123456789+-.eE";

bool fits(std::string_view integer) {
  const bool negative = integer.front() == '-';
  const std::string_view digits = integer.substr(negative ? 1 : 0);
  const std::string_view most = negative ? "9223372036854775808" : "9223372036854775807";
  return digits.size() < most.size() || (digits.size() == most.size() && digits <= most);
}

// Behind the string that begins at `at`.
std::size_t end_of_string(std::string_view json, std::size_t at) {
  ++at;
  while (at < json.size() && json[at] != '"') at += json[at] == '\\' ? 2 : 1;
  return at + 1;
}

}  // namespace

std::string first_oversized_integer(std::string_view json,
                                    const std::vector<std::string_view>& keys) {
  const std::size_t start = std::min(json.find_first_not_of(" \t\r\n"), json.size());
  const int row_depth = start < json.size() && json[start] == '[' ? 2 : 1;
  int depth = 0;
  bool wanted = keys.empty();
  std::string_view text;  // the last string
  for (std::size_t at = start; at < json.size();) {
    const char c = json[at];
    if (c == '"') {
      const std::size_t end = end_of_string(json, at);
      text = json.substr(at + 1, std::min(end, json.size()) - at - 2);
      at = end;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      const std::size_t end = std::min(json.find_first_not_of(kNumber, at), json.size());
      const std::string_view number = json.substr(at, end - at);
      if (wanted && number.find_first_of(".eE") == std::string_view::npos && !fits(number))
        return std::string(number);
      at = end;
    } else {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (c == ':' && depth == row_depth && !keys.empty())
        wanted = std::find(keys.begin(), keys.end(), text) != keys.end();
      ++at;
    }
  }
  return "";
}

}  // namespace glmtune::io
