#include "io/json_integers.h"

#include <algorithm>

#include "base/cat.h"
#include "io/json.h"

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

// key: as it stands between its quotes.
bool is_one_of(const std::vector<std::string_view>& keys, std::string_view key) {
  if (key.find('\\') == std::string_view::npos)
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  const Value plain = parse_json(cat('"', key, '"'), "key");
  return std::find(keys.begin(), keys.end(), plain.as_string()) != keys.end();
}

}  // namespace

std::string first_oversized_integer(std::string_view json,
                                    const std::vector<std::string_view>& keys) {
  int depth = 0;
  bool wanted = keys.empty();
  std::string_view text;  // the last string
  for (std::size_t at = 0; at < json.size();) {
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
      if (c == ':' && depth == 1 && !keys.empty()) wanted = is_one_of(keys, text);
      ++at;
    }
  }
  return "";
}

}  // namespace glmtune::io
