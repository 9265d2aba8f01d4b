#include "train/log_rewind.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "train/log.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;
constexpr const char* kSuperseded = ".superseded";

bool is_log(std::string_view name) {
  return name == "training.jsonl" || (name.starts_with("validation") && name.ends_with(".jsonl"));
}

// What a killed process left of the files it was replacing; the process id in such a name may be
// this one's.
bool is_leftover(std::string_view name) {
  const std::size_t mark = name.find(".tmp-");
  if (!name.starts_with('.') || mark == std::string_view::npos) return false;
  std::string_view file = name.substr(1, mark - 1);
  if (file.ends_with(kSuperseded)) file.remove_suffix(std::string_view(kSuperseded).size());
  return is_log(file);
}

bool is_before(const std::string& line, std::int64_t step) {
  try {
    const io::Value record = io::parse_json(line, "log");
    const io::Value* found = record.is_object() ? record.find("step") : nullptr;
    return found != nullptr && found->is_int() && found->as_int() < step;
  } catch (const Error&) {
    return false;
  }
}

bool is_record(const std::string& line) {
  try {
    const io::Value record = io::parse_json(line, "log");
    const io::Value* step = record.is_object() ? record.find("step") : nullptr;
    return step != nullptr && step->is_int() && record.find("timestamp") != nullptr;
  } catch (const Error&) {
    return false;
  }
}

// Whether a run wrote this, and not whoever made a data set of such a name: some whole line is a
// run's, or the only one is cut short and begins like it or holds zeros only. What a crash leaves
// of other lines says nothing.
bool is_written_by_a_run(const std::string& text) {
  constexpr std::string_view kBegin = "{\"step\":";
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    if (is_record(text.substr(begin, end - begin))) return true;
  const std::string_view all = text;
  return begin == 0 && (all.starts_with(kBegin) || kBegin.starts_with(all) ||
                        all.find_first_not_of('\0') == std::string_view::npos);
}

// The text of a log; empty where there is none. Error where the file is something else.
std::string text_of_log(const std::string& path) {
  if (!fs::exists(path)) return "";
  if (!fs::is_regular_file(path))
    fail(cat(path, ": is not a regular file; remove it, a run writes its log there"));
  std::string text = io::read_file(path);
  if (!is_written_by_a_run(text))
    fail(cat(path,
             ": none of its lines is a step of a run (\"step\" and \"timestamp\"), and this run ",
             "would write its log there; move it elsewhere, or choose another ",
             "checkpoint.checkpoint_dir"));
  return text;
}

struct Lines {
  std::string kept, moved;
  std::int64_t moved_count = 0;
};

Lines sorted_out(const std::string& text, std::int64_t first_step) {
  Lines lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const bool whole = end != std::string::npos;  // else a crash cut it short
    const std::string line = text.substr(begin, whole ? end - begin : end);
    begin += line.size() + 1;
    if (whole && is_before(line, first_step)) {
      lines.kept += line + "\n";
    } else {
      lines.moved += line + "\n";
      ++lines.moved_count;
    }
  }
  return lines;
}

}  // namespace

std::int64_t rewind_log(const std::string& path, std::int64_t first_step) {
  const std::string text = text_of_log(path);
  const Lines lines = sorted_out(text, first_step);
  if (lines.moved_count == 0) return 0;
  const std::string superseded = path + kSuperseded;
  const std::string older = fs::exists(superseded) ? io::read_file(superseded) : "";
  // A process that was killed between the two writes has moved them already.
  if (!older.ends_with(lines.moved)) io::write_file(superseded, older + lines.moved);
  io::write_file(path, lines.kept);
  return lines.moved_count;
}

void check_logs(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) (void)text_of_log((fs::path(folder) / name).string());
}

void rewind_logs(const std::string& folder, const std::vector<std::string>& names,
                 std::int64_t first_step) {
  check_logs(folder, names);
  std::vector<fs::path> logs, leftovers;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (is_leftover(name)) leftovers.push_back(entry.path());
    const bool own = std::find(names.begin(), names.end(), name) != names.end();
    if (own || (is_log(name) && entry.is_regular_file() &&
                is_written_by_a_run(io::read_file(entry.path().string()))))
      logs.push_back(entry.path());
  }
  if (error) fail(cat(folder, ": cannot be listed: ", error.message()));
  for (const fs::path& path : leftovers) fs::remove(path, error);
  std::sort(logs.begin(), logs.end());
  for (const fs::path& path : logs)
    if (const std::int64_t moved = rewind_log(path.string(), first_step); moved > 0)
      log_info(cat(path.string(), ": ", moved, moved == 1 ? " line" : " lines",
                   " of an earlier start, not of a step before ", first_step, ", moved to ",
                   path.filename().string(), kSuperseded));
}

}  // namespace glmtune::train
