#include "apps/stop_signal.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace glmtune::apps {
namespace {

std::atomic<int> g_stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch such a flag");

void say(std::string_view text) {
  // What fails here cannot be reported anywhere.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

extern "C" void on_signal(int number) {
  int none = 0;
  if (g_stop_signal.compare_exchange_strong(none, number)) {
    if (number == SIGINT) say("\nfinishing the step; Ctrl-C again ends at once\n");
    return;
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

const std::atomic<int>& stop_signal() {
  return g_stop_signal;
}

void handle_stop_signals(std::span<const int> signals) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  for (const int number : signals) sigaction(number, &action, nullptr);
}

}  // namespace glmtune::apps
