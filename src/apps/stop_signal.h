#pragma once
// Signals that ask a run to end: the handler sets a flag and nothing else; the loop reads it after
// each step. Further signals change nothing, but a second SIGINT, which ends the process at once.
#include <atomic>
#include <span>

namespace glmtune::apps {

// 0, or the number of the signal that came.
const std::atomic<int>& stop_signal();

// Whether whoever started this process made it ignore the signal (nohup SIGHUP, a script SIGINT of
// what it starts in the background).
bool is_ignored(int signal);

// Handles the given signals from now on, and SIGINT where it is not ignored.
void handle_stop_signals(std::span<const int> signals);

}  // namespace glmtune::apps
