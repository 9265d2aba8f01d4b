#pragma once
// Ends a process with SIGKILL just before one of its changes to the file system (ptrace): what
// stays behind is what a crash at that moment leaves. Linux on x86-64.
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace glmtune::test {

struct CrashPoint {
  // The change before which the process dies, counted from 0; none: it runs to its end.
  std::optional<int> at = {};
  // Changes are counted from the first one whose path contains this.
  std::string from = {};
};

struct CrashResult {
  bool traced = false;        // false: this machine does not allow ptrace
  bool killed = false;        // at the chosen change; otherwise it ended by itself
  int status = 0;             // exit status when it ended by itself
  int changes = 0;            // changes that were counted
  std::string killed_before;  // name of the change
};

// Runs `body` in a forked copy of this process; an exception ends it with status 1. The copy has
// one thread: `body` must not start OpenMP regions if this process has.
CrashResult run_and_crash(const CrashPoint& point, const std::function<void()>& body);

// Runs a program the same way, its output discarded.
CrashResult run_program_and_crash(const CrashPoint& point, const std::vector<std::string>& words);

}  // namespace glmtune::test
