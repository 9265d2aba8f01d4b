#include <string>
#include <vector>

#include "apps/command_line.h"

int main(int argc, char** argv) {
  return glmtune::apps::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
}
