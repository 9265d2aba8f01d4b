#include "train/signals.h"

#include <array>
#include <charconv>
#include <csignal>
#include <utility>

#include "base/cat.h"

namespace glmtune::train {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 12> kSignals{{
    {"SIGHUP", SIGHUP},
    {"SIGINT", SIGINT},
    {"SIGQUIT", SIGQUIT},
    {"SIGUSR1", SIGUSR1},
    {"SIGUSR2", SIGUSR2},
    {"SIGALRM", SIGALRM},
    {"SIGTERM", SIGTERM},
    {"SIGCONT", SIGCONT},
    {"SIGTSTP", SIGTSTP},
    {"SIGXCPU", SIGXCPU},
    {"SIGVTALRM", SIGVTALRM},
    {"SIGWINCH", SIGWINCH},
}};

}  // namespace

std::optional<int> signal_number(std::string_view name) {
  for (const auto& [known, number] : kSignals)
    if (name == known || name == known.substr(3)) return number;
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  if (!whole || number < 1 || number > 64 || number == SIGKILL || number == SIGSTOP)
    return std::nullopt;
  return number;
}

std::string signal_name(int number) {
  for (const auto& [name, known] : kSignals)
    if (known == number) return std::string(name);
  return cat("signal ", number);
}

}  // namespace glmtune::train
