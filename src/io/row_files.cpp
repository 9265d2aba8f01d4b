#include "io/row_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "base/cat.h"

namespace glmtune::io {

namespace {

constexpr std::array<std::string_view, 7> kEndings{
    ".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst", ".parquet"};

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // from 0 where there is no folder
}

// A file's place among those that differ from it in the ending only, the best first.
std::size_t place(std::string_view path) {
  const auto* const at =
      std::find(kEndings.begin(), kEndings.end(), row_file_ending(file_name(path)));
  return static_cast<std::size_t>(at - kEndings.begin());
}

// "-0123456789abcdef", as the hub's older files have it behind their number.
constexpr std::size_t kHash = 17;
bool begins_with_hash(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() >= kHash && text.front() == '-' &&
         std::all_of(text.begin() + 1, text.begin() + kHash, is_hex) &&
         (text.size() == kHash || text[kHash] == '.');
}

}  // namespace

std::string_view row_file_ending(std::string_view name) {
  constexpr std::array<std::string_view, 3> kDescriptions{"dataset_info.json", "dataset_infos.json",
                                                          "state.json"};
  if (std::find(kDescriptions.begin(), kDescriptions.end(), name) != kDescriptions.end()) return "";
  const auto* const ending = std::find_if(kEndings.begin(), kEndings.end(),
                                          [&](std::string_view e) { return name.ends_with(e); });
  return ending == kEndings.end() ? "" : *ending;
}

bool is_hidden(std::string_view path) {
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.starts_with('.') || (end < path.size() && part.starts_with("__"))) return true;
    begin = end + 1;
  }
  return false;
}

std::vector<std::string_view> words_of_split(std::string_view split) {
  if (split == "train") return {"train", "training"};
  if (split == "validation") return {"validation", "valid", "dev", "val"};
  if (split == "test") return {"test", "testing", "eval", "evaluation"};
  return {split};
}

bool names_split(std::string_view path, std::string_view split) {
  const auto is_word = [&](std::size_t at) {
    return at < path.size() && std::isalnum(static_cast<unsigned char>(path[at])) != 0;
  };
  for (const std::string_view word : words_of_split(split)) {
    for (std::size_t at = path.find(word); at != std::string_view::npos;
         at = path.find(word, at + 1)) {
      if ((at == 0 || !is_word(at - 1)) && !is_word(at + word.size())) return true;
    }
  }
  return false;
}

std::string part_of_rows(std::string_view path) {
  constexpr std::array<std::string_view, 5> kOfNoSubset{"data", "default", "parquet", "json",
                                                        "jsonl"};
  constexpr std::array<std::string_view, 3> kSplits{"train", "validation", "test"};
  std::string out;
  bool has_split = false;
  const auto add = [&](std::string_view part, bool is_file) {
    const auto* const split =
        std::find_if(kSplits.begin(), kSplits.end(), [&](auto s) { return names_split(part, s); });
    if (split == kSplits.end() && is_file) return;  // rows of whatever its folder is
    if (split != kSplits.end()) {
      has_split = true;
      const auto words = words_of_split(*split);
      if (std::find(words.begin(), words.end(), part) != words.end()) part = *split;
    }
    out += cat(out.empty() ? "" : "/", part);
  };
  std::size_t begin = 0;
  for (std::size_t end = path.find('/'); end != std::string_view::npos;
       begin = end + 1, end = path.find('/', begin)) {
    const std::string_view folder = path.substr(begin, end - begin);
    if (std::find(kOfNoSubset.begin(), kOfNoSubset.end(), folder) == kOfNoSubset.end())
      add(folder, false);
  }
  std::string_view name = path.substr(begin);
  const auto shard = shard_name(path);
  if (shard)
    name = std::string_view(shard->before).substr(begin);
  else
    name.remove_suffix(row_file_ending(name).size());
  const std::size_t last = name.find_last_not_of("0123456789-_.");
  add(name.substr(0, last == std::string_view::npos ? 0 : last + 1), true);
  if (!has_split) add("train", false);
  return out;
}

OneForm one_form(const std::vector<std::string>& paths, const std::set<std::string>& there) {
  std::map<std::string, std::string> json, parquet;  // the best file by its path without ending
  std::size_t json_there = 0, parquet_there = 0;
  for (const std::string& path : paths) {
    const std::string_view ending = row_file_ending(file_name(path));
    const bool is_parquet = ending == ".parquet", is_there = there.contains(path);
    (is_parquet ? parquet_there : json_there) += is_there ? 1 : 0;
    auto [at, is_first] = (is_parquet ? parquet : json)
                              .try_emplace(path.substr(0, path.size() - ending.size()), path);
    if (is_first) continue;
    const bool other_is_there = there.contains(at->second);
    if (is_there != other_is_there ? is_there : place(path) < place(at->second)) at->second = path;
  }
  const bool takes_parquet =
      json_there + parquet_there > 0 ? parquet_there >= json_there : parquet.size() >= json.size();
  std::set<std::string> best;
  for (const auto& [stem, path] : takes_parquet ? parquet : json) best.insert(path);
  OneForm out;
  for (const std::string& path : paths)
    (best.contains(path) ? out.chosen : out.others).push_back(path);
  return out;
}

std::string ShardName::path(int n) const {
  const auto five = [](int x) {
    const std::string digits = std::to_string(x);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return cat(before, five(n), "-of-", five(count), is_hashed ? "-*" : "", after);
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
  std::string_view after = path.substr(end);
  const bool is_hashed = begins_with_hash(after);
  if (is_hashed) after.remove_prefix(kHash);
  return ShardName{.before = std::string(path.substr(0, of - kDigits)),
                   .number = *number,
                   .count = *count,
                   .after = std::string(after),
                   .is_hashed = is_hashed};
}

}  // namespace glmtune::io
