#pragma once
// From the words of the command line to an exit status.
#include <span>
#include <string>

namespace glmtune::apps {

// words: without the program's name. Errors are printed on standard error.
int run_command_line(std::span<const std::string> words);

}  // namespace glmtune::apps
