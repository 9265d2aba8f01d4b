#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "base/cat.h"
#include "base/error.h"
#include "data/rows.h"
#include "data/split_files.h"
#include "io/folder_files.h"
#include "io/row_files.h"
#include "io/untrusted.h"
#include "io/whole_note.h"

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
  const auto words = io::words_of_split(split);
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

// The folder's files of rows, from it on.
std::vector<std::string> row_files_below(const fs::path& folder) {
  std::vector<std::string> out;
  for (const std::string& path : io::files_below(folder.string())) {
    const fs::path file = folder / path;
    if (!io::is_row_file(file.filename().string())) continue;
    std::error_code error;
    const fs::file_status status = fs::status(file, error);
    if (!fs::exists(status)) fail(cat(file.string(), ": ", io::kLinkToNothing));
    if (fs::is_regular_file(status)) out.push_back(path);
  }
  if (out.empty())
    fail(cat(folder.string(), ": no .jsonl, .json (also .gz or .zst) or .parquet file in it"));
  return out;
}

// Files of both formats side by side are the same rows twice. Where they lie in different folders
// they may be anything; a snapshot of the hub is read by its own rule.
void refuse_formats_apart(const fs::path& folder, const std::vector<std::string>& files) {
  if (folder.parent_path().filename() == "snapshots") return;
  std::array<std::map<std::string, std::string>, 2> first;  // by folder, of JSON and of Parquet
  for (const std::string& name : files)
    first.at(name.ends_with(".parquet") ? 1 : 0)
        .try_emplace(fs::path(name).parent_path().string(), name);
  for (const std::size_t format : {std::size_t{0}, std::size_t{1}})
    for (const auto& [inner, name] : first.at(format))
      if (const auto& other = first.at(1 - format); !other.empty() && !other.contains(inner))
        fail(cat(folder.string(), ": ", name, " and ", other.begin()->second,
                 " are of two formats in different folders, the same rows twice or not; name the ",
                 "files or the folders to be read"));
}

void add_files_of_folder(const fs::path& folder, const std::string& split, SplitFiles& out) {
  const std::vector<std::string> files = row_files_below(folder);
  std::vector<std::string> chosen;  // of the split
  std::vector<std::string> rest;    // of no split
  for (const std::string& name : files) {
    if (names_split(name, split))
      chosen.push_back(name);
    else if (!names_split(name, "train") && !names_split(name, "validation") &&
             !names_split(name, "test"))
      rest.push_back(name);
  }
  // Files whose names say nothing are training data.
  if (chosen.empty() && split == "train") chosen = std::move(rest);
  if (chosen.empty()) {
    fail(cat(folder.string(), ": none of its ", files.size(), " files is named after split ", split,
             "; the first of them: ", files.front()));
  }
  keep_one_split(chosen, folder, split);
  std::vector<std::string> others;
  std::set_difference(files.begin(), files.end(), chosen.begin(), chosen.end(),
                      std::back_inserter(others));
  refuse_formats_apart(folder, chosen);
  const io::OneForm form = io::form_to_read(folder.string(), chosen);
  const auto add = [&](const std::vector<std::string>& names, std::vector<std::string>& to) {
    std::transform(names.begin(), names.end(), std::back_inserter(to),
                   [&](const std::string& name) { return (folder / name).string(); });
  };
  add(form.chosen, out.chosen);
  add(form.others, out.other_form);
  add(others, out.set_aside);
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
  SplitFiles out;
  for (const std::string& given : paths) {
    const std::string path = io::without_last_slash(given);
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) fail(io::unreachable(path));
    if (fs::is_directory(status))
      add_files_of_folder(path, split_name, out);
    else
      out.chosen.push_back(path);
  }
  return out;
}

std::string files_repeated(const std::vector<std::string>& paths, const std::string& split_name) {
  std::map<std::string, int> times;  // by what tells files apart
  std::vector<std::string> repeated;
  for (const std::string& path : split_files(paths, split_name).chosen) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    struct stat file {};
    if (error || ::stat(path.c_str(), &file) != 0) continue;  // said where it is opened
    std::string identity = cat(file.st_dev, ":", file.st_ino);
    // The hub's cache has one blob for files that are equal.
    if (real.parent_path().filename() == "blobs")
      identity =
          (fs::canonical(fs::path(path).parent_path(), error) / fs::path(path).filename()).string();
    if (++times[identity] == 2) repeated.push_back(path);
  }
  if (repeated.empty()) return "";
  return cat(io::printable_list(repeated), repeated.size() > 1 ? " are" : " is",
             " named more than once (itself, by a folder or through links); the rows are read as ",
             "often. Name every file once unless it is to weigh more");
}

std::vector<Count> files_left_out(const std::vector<std::string>& paths,
                                  const std::string& split_name) {
  const SplitFiles files = split_files(paths, split_name);
  const std::size_t all = files.chosen.size() + files.other_form.size() + files.set_aside.size();
  std::vector<Count> notes;
  const auto note = [&](const std::vector<std::string>& left_out, const std::string& why) {
    if (left_out.empty()) return;
    std::vector<std::string> names;
    names.reserve(left_out.size());
    for (const std::string& file : left_out) names.push_back(fs::path(file).filename().string());
    add_count(notes,
              cat("files of ", all, " ", why, ", left out (", io::printable_list(names), ")"),
              static_cast<std::int64_t>(left_out.size()));
  };
  note(files.set_aside, cat("that are not of split ", split_name));
  note(files.other_form, cat("that are there in another form than ",
                             fs::path(files.chosen.front()).filename().string()));
  return notes;
}

std::vector<std::string> data_files(const std::vector<std::string>& paths,
                                    const std::string& split_name) {
  return split_files(paths, split_name).chosen;
}

}  // namespace glmtune::data
