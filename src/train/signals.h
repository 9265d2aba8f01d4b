#pragma once
// Names of signals, as recipes write them.
#include <optional>
#include <string>
#include <string_view>

namespace glmtune::train {

// "SIGTERM", "TERM", "15" -> 15; nothing for anything else, and for signals no process can catch.
std::optional<int> signal_number(std::string_view name);
// "SIGTERM"; "signal 99" for one without a name here.
std::string signal_name(int number);

}  // namespace glmtune::train
