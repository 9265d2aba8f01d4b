#include "io/row_files.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/cat.h"

namespace glmtune::io {

std::string_view row_file_ending(std::string_view name) {
  constexpr std::array<std::string_view, 7> kEndings{
      ".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst", ".parquet"};
  constexpr std::array<std::string_view, 3> kDescriptions{"dataset_info.json", "dataset_infos.json",
                                                          "state.json"};
  if (std::find(kDescriptions.begin(), kDescriptions.end(), name) != kDescriptions.end()) return "";
  const auto* const ending = std::find_if(kEndings.begin(), kEndings.end(),
                                          [&](std::string_view e) { return name.ends_with(e); });
  return ending == kEndings.end() ? "" : *ending;
}

std::string ShardName::path(int n) const {
  const auto five = [](int x) {
    const std::string digits = std::to_string(x);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return cat(before, five(n), "-of-", five(count), after);
}

std::optional<ShardName> shard_name(std::string_view path) {
  constexpr std::string_view kOf = "-of-";
  constexpr std::size_t kDigits = 5;
  const auto is_digit = [&](std::size_t at) {
    return at < path.size() && std::isdigit(static_cast<unsigned char>(path[at])) != 0;
  };
  const auto number_at = [&](std::size_t at) -> std::optional<int> {
    if (is_digit(at - 1) || is_digit(at + kDigits)) return std::nullopt;
    int number = 0;
    for (std::size_t i = at; i < at + kDigits; ++i) {
      if (!is_digit(i)) return std::nullopt;
      number = 10 * number + (path[i] - '0');
    }
    return number;
  };
  const std::size_t of = path.rfind(kOf);
  const std::size_t begin = path.rfind('/') + 1;  // 0 where there is no folder
  if (of == std::string_view::npos || of < begin + kDigits) return std::nullopt;
  const std::size_t end = of + kOf.size() + kDigits;
  const auto number = number_at(of - kDigits), count = number_at(of + kOf.size());
  if (!number || !count) return std::nullopt;
  return ShardName{.before = std::string(path.substr(0, of - kDigits)),
                   .number = *number,
                   .count = *count,
                   .after = std::string(path.substr(end))};
}

}  // namespace glmtune::io
