#pragma once
// What the program says while it works. Lines look like
//   2026-08-22 12:00:00 | INFO | glmtune | text
// Information goes to standard output, warnings and errors to standard error; rank 0 speaks.
#include <functional>
#include <string>

namespace glmtune::train {

struct LogOptions {
  int rank = 0;             // only rank 0 prints information and warnings; errors name others
  bool information = true;  // false: warnings and errors only
};

// Call once at start; before that, defaults hold.
void set_up_log(const LogOptions& options);
void log_info(const std::string& text);
void log_warning(const std::string& text);
void log_error(const std::string& text);

// Called before a line is printed: a progress line takes itself off the screen. Empty: nothing.
// Returns what was called so far.
std::function<void()> set_before_log_line(std::function<void()> hook);

}  // namespace glmtune::train
