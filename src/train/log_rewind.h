#pragma once
// What a run's logs hold when it starts: a run that begins at step s answers for the lines of
// earlier steps only. All others, which an interrupted or an earlier run wrote, move to a file
// beside the log, so that a log has every step once and in order, and no line is lost.
#include <cstdint>
#include <string>
#include <vector>

namespace glmtune::train {

// Moves from the log `path` to the end of `path`.superseded what is not a whole line with a "step"
// below first_step; how many lines that is. A missing log has none; Error where `path` is no
// regular file, or holds what no run wrote. Killed at any moment it loses no line, and done again
// it writes none twice.
std::int64_t rewind_log(const std::string& path, std::int64_t first_step);

// Error where one of these files of a folder is no log; before the weights are read.
void check_logs(const std::string& folder, const std::vector<std::string>& names);

// rewind_log() for the logs that a run writes in a folder, and for those of other validation sets
// (validation*.jsonl) that an earlier run wrote there, with a line on the console for each that
// lost some. Other files of such names are left alone. The folder must be this process's own
// (RunLock).
void rewind_logs(const std::string& folder, const std::vector<std::string>& names,
                 std::int64_t first_step);

}  // namespace glmtune::train
