#pragma once
// Signals that ask a run to end: the handler sets a flag and nothing else; the loop reads it after
// each step. Further signals change nothing, but a second SIGINT, which ends the process at once.
#include <atomic>
#include <span>

namespace glmtune::apps {

// 0, or the number of the signal that came.
const std::atomic<int>& stop_signal();

// Handles SIGINT and the given signals from now on.
void handle_stop_signals(std::span<const int> signals);

}  // namespace glmtune::apps
