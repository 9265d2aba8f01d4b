#pragma once
// What a run's logs hold when it starts: a run that begins at step s answers for the lines of
// earlier steps only. All others, which an interrupted or an earlier run wrote, move to a file
// beside the log, so that a log has every step once and in order, and no line is lost.
#include <cstdint>
#include <string>

namespace glmtune::train {

// Moves from the log `path` to the end of `path`.superseded what is not a whole line with a "step"
// below first_step; how many lines that is. A missing log has none; Error where `path` is no
// regular file, or holds what no run wrote. Killed at any moment it loses no line, and done again
// it writes none twice.
std::int64_t rewind_log(const std::string& path, std::int64_t first_step);

// The same for training.jsonl and every validation*.jsonl of a folder, with a line on the console
// for each log that lost some. The folder must be this process's own (RunLock).
void rewind_logs(const std::string& folder, std::int64_t first_step);

}  // namespace glmtune::train
