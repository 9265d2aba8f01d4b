#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/cat.h"
#include "base/error.h"
#include "data/rows.h"
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

std::int64_t position(std::string_view text, std::int64_t otherwise, std::int64_t rows,
                      const std::string& split) {
  text = trim(text);
  if (text.empty()) return otherwise;
  const bool percent = text.back() == '%';
  if (percent) text = trim(text.substr(0, text.size() - 1));
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(cat("split \"", split, "\": \"", std::string(text), "\" is no number; ", kSplitForms));
  }
  if (percent) {
    if (n < -100 || n > 100) fail(cat("split \"", split, "\": ", n, "% is beyond 100%"));
    n = std::llrint(static_cast<double>(n) * static_cast<double>(rows) / 100.0);
  }
  if (n < 0) n += rows;
  return std::clamp<std::int64_t>(n, 0, rows);
}

std::vector<std::string> files_of_folder(const fs::path& folder, const std::string& split_name) {
  std::vector<std::string> files;
  std::vector<std::string> of_split;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    if (!io::is_row_file(entry.path().filename().string())) continue;
    files.push_back(entry.path().string());
    if (entry.path().filename().string().find(split_name) != std::string::npos) {
      of_split.push_back(files.back());
    }
  }
  std::vector<std::string>& chosen = of_split.empty() ? files : of_split;
  if (chosen.empty()) {
    fail(cat(folder.string(), ": no .jsonl, .json (also .gz or .zst) or .parquet file in it"));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace

std::string name_of_split(const std::string& split) {
  return std::string(trim(std::string_view(split).substr(0, split.find('['))));
}

RowRange slice_of_split(const std::string& split, std::int64_t rows) {
  const std::size_t open = split.find('[');
  if (name_of_split(split).empty() || split.find('+') != std::string::npos) {
    fail(cat("split \"", split, "\" is not understood; ", kSplitForms));
  }
  if (open == std::string::npos) return {0, rows};
  const std::size_t colon = split.find(':', open);
  if (colon == std::string::npos || split.back() != ']') {
    fail(cat("split \"", split, "\" is not understood; ", kSplitForms));
  }
  const std::string_view text = split;
  RowRange range;
  range.begin = position(text.substr(open + 1, colon - open - 1), 0, rows, split);
  range.end = position(text.substr(colon + 1, text.size() - colon - 2), rows, rows, split);
  range.end = std::max(range.begin, range.end);
  return range;
}

std::vector<std::string> data_files(const std::vector<std::string>& paths,
                                    const std::string& split_name) {
  if (paths.empty()) fail("no path is given");
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) fail(cat(path, ": no such file or folder"));
    if (fs::is_directory(status)) {
      for (std::string& file : files_of_folder(path, split_name)) files.push_back(std::move(file));
      continue;
    }
    files.push_back(path);
  }
  return files;
}

}  // namespace glmtune::data
