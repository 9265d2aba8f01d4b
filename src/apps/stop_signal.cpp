#include "apps/stop_signal.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

namespace glmtune::apps {
namespace {

std::atomic<int> g_stop_signal{0};
std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a signal handler may only touch such flags");

void say(std::string_view text) {
  // What fails here cannot be reported anywhere.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

// A batch system sends signals of its own while the last save runs (a warning, then SIGTERM at the
// time limit), and groups of processes get one twice: only a person's second Ctrl-C ends at once.
extern "C" void on_signal(int number) {
  const int error = errno;
  int none = 0;
  g_stop_signal.compare_exchange_strong(none, number);
  if (number == SIGINT) {
    if (g_interrupted.exchange(true)) {
      std::signal(number, SIG_DFL);
      std::raise(number);
    } else {
      say("\nfinishing the step; Ctrl-C again ends at once\n");
    }
  }
  errno = error;
}

}  // namespace

const std::atomic<int>& stop_signal() {
  return g_stop_signal;
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void handle_stop_signals(std::span<const int> signals) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  // A job that a script starts in the background ignores the Ctrl-C that is meant for the script.
  if (!is_ignored(SIGINT)) sigaction(SIGINT, &action, nullptr);
  for (const int number : signals) sigaction(number, &action, nullptr);
}

}  // namespace glmtune::apps
