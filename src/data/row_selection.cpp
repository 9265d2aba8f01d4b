#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "base/cat.h"
#include "base/error.h"
#include "data/rows.h"
#include "data/split_files.h"
#include "io/files.h"
#include "io/row_files.h"

namespace glmtune::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSplitForms =
    "expected NAME, NAME[a:b] or NAME[a%:b%], for example train[:1000]";

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// One side of a slice: a row, or a percentage of all rows.
struct Bound {
  std::optional<std::int64_t> at;
  bool percent = false;

  std::int64_t row(std::int64_t rows, std::int64_t otherwise) const {
    if (!at) return otherwise;
    std::int64_t n = *at;
    if (percent) n = std::llrint(static_cast<double>(n) * static_cast<double>(rows) / 100.0);
    if (n < 0) n += rows;
    return std::clamp<std::int64_t>(n, 0, rows);
  }
};

struct Slice {
  Bound begin, end;
  std::string problem;  // not empty: the split is not understood
};

Bound bound(std::string_view text, std::string& problem) {
  text = trim(text);
  Bound out;
  if (text.empty()) return out;
  out.percent = text.back() == '%';
  if (out.percent) text = trim(text.substr(0, text.size() - 1));
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) {
    problem = cat("\"", std::string(text), "\" is no number; ", kSplitForms);
  } else if (out.percent && (n < -100 || n > 100)) {
    problem = cat(n, "% is beyond 100%; ", kSplitForms);
  }
  out.at = n;
  return out;
}

Slice parse_split(const std::string& split) {
  Slice out;
  const std::string_view text = split;
  const std::size_t open = text.find('[');
  const std::string name = name_of_split(split);
  if (name.empty() || name.find_first_of("+]:%") != std::string::npos) {
    out.problem = std::string(kSplitForms);
    return out;
  }
  if (open == std::string::npos) return out;
  const std::size_t colon = text.find(':', open);
  if (colon == std::string::npos || text.back() != ']') {
    out.problem = std::string(kSplitForms);
    return out;
  }
  out.begin = bound(text.substr(open + 1, colon - open - 1), out.problem);
  out.end = bound(text.substr(colon + 1, text.size() - colon - 2), out.problem);
  return out;
}

std::vector<std::string_view> words_of_split(std::string_view split) {
  if (split == "train") return {"train", "training"};
  if (split == "validation") return {"validation", "valid", "dev", "val"};
  if (split == "test") return {"test", "testing", "eval", "evaluation"};
  return {split};
}

// Whether a path has one of the split's words, between characters that are no letters or digits.
bool names_split(const std::string& path, std::string_view split) {
  const auto is_word = [&](std::size_t at) {
    return at < path.size() && std::isalnum(static_cast<unsigned char>(path[at])) != 0;
  };
  for (const std::string_view word : words_of_split(split)) {
    for (std::size_t at = path.find(word); at != std::string::npos; at = path.find(word, at + 1)) {
      if ((at == 0 || !is_word(at - 1)) && !is_word(at + word.size())) return true;
    }
  }
  return false;
}

// "train_sft" of "data/train_sft-00000-of-00003.parquet": what the hub's own files name as their
// split; empty for other names.
std::string split_of_shard(const std::string& path) {
  const auto shard = io::shard_name(path);
  if (!shard || !shard->before.ends_with('-')) return "";
  const std::string name = shard->before.substr(shard->before.rfind('/') + 1);
  return name.substr(0, name.size() - 1);
}

// Numbered files of several splits whose names all have the word, such as train_sft and train_gen:
// those of the split itself, or nobody can say which are meant.
void keep_one_split(std::vector<std::string>& chosen, const fs::path& folder,
                    const std::string& split) {
  std::set<std::string> named;
  for (const std::string& file : chosen)
    if (const std::string of = split_of_shard(file); names_split(of, split)) named.insert(of);
  if (named.size() < 2) return;
  const auto words = words_of_split(split);
  const bool has_own = std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return named.contains(std::string(word));
  });
  std::string list;
  for (const std::string& name : named) list += (list.empty() ? "" : ", ") + name;
  if (!has_own)
    fail(cat(folder.string(), ": split ", split, " may be any of ", list, "; name one of them"));
  std::erase_if(chosen, [&](const std::string& file) {
    const std::string of = split_of_shard(file);
    return named.contains(of) && std::find(words.begin(), words.end(), of) == words.end();
  });
}

// What is in the folder and not of the split is added to `set_aside`.
std::vector<std::string> files_of_folder(const fs::path& folder, const std::string& split,
                                         std::vector<std::string>& set_aside) {
  std::vector<std::string> files;   // all
  std::vector<std::string> chosen;  // of the split
  std::vector<std::string> rest;    // of no split
  std::error_code error;
  fs::path last = folder;  // looked at: what cannot be entered is this, or the folder itself
  for (fs::recursive_directory_iterator at(folder, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    last = at->path();
    std::error_code unknown;
    if (!io::is_row_file(last.filename().string()) || !at->is_regular_file(unknown)) continue;
    const std::string name = last.lexically_relative(folder).generic_string();
    files.push_back(last.string());
    const bool other =
        names_split(name, "train") || names_split(name, "validation") || names_split(name, "test");
    if (names_split(name, split)) {
      chosen.push_back(files.back());
    } else if (!other) {
      rest.push_back(files.back());
    }
  }
  if (error) io::fail_errno(last.string(), "listing the folder", error.value());
  if (files.empty()) {
    fail(cat(folder.string(), ": no .jsonl, .json (also .gz or .zst) or .parquet file in it"));
  }
  // Files whose names say nothing are training data.
  if (chosen.empty() && split == "train") chosen = std::move(rest);
  if (chosen.empty()) {
    fail(cat(folder.string(), ": none of its ", files.size(), " files is named after split ", split,
             "; the first of them: ", *std::min_element(files.begin(), files.end())));
  }
  keep_one_split(chosen, folder, split);
  std::sort(chosen.begin(), chosen.end());
  std::sort(files.begin(), files.end());
  std::set_difference(files.begin(), files.end(), chosen.begin(), chosen.end(),
                      std::back_inserter(set_aside));
  return chosen;
}

}  // namespace

std::string name_of_split(const std::string& split) {
  return std::string(trim(std::string_view(split).substr(0, split.find('['))));
}

std::string problem_of_split(const std::string& split) {
  return parse_split(split).problem;
}

RowRange slice_of_split(const std::string& split, std::int64_t rows) {
  const Slice slice = parse_split(split);
  if (!slice.problem.empty()) fail(cat("split \"", split, "\": ", slice.problem));
  const std::int64_t begin = slice.begin.row(rows, 0);
  return {begin, std::max(begin, slice.end.row(rows, rows))};
}

SplitFiles split_files(const std::vector<std::string>& paths, const std::string& split_name) {
  if (paths.empty()) fail("no path is given");
  std::vector<std::string> files, set_aside;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) fail(cat(path, ": no such file or folder"));
    if (fs::is_directory(status)) {
      for (std::string& file : files_of_folder(path, split_name, set_aside))
        files.push_back(std::move(file));
      continue;
    }
    files.push_back(path);
  }
  return {std::move(files), std::move(set_aside)};
}

std::vector<std::string> data_files(const std::vector<std::string>& paths,
                                    const std::string& split_name) {
  return split_files(paths, split_name).chosen;
}

}  // namespace glmtune::data
