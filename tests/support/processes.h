#pragma once
// Processes that a test forks, as the ranks of a run are.
#include <functional>
#include <string>
#include <vector>

#include "support/temp_folder.h"

namespace glmtune::test {

// How a process has ended.
struct Ended {
  std::string said;     // what its body returned, or the message of the Error that ended it
  bool failed = false;  // by an Error
  int signal = 0;       // that killed it
};

// Copies of this process that run `body`; they have one thread each, so `body` must not start
// OpenMP regions if this process has. Killed after a minute.
class Processes {
 public:
  void start(const std::function<std::string()>& body);
  void kill(std::size_t process) const;  // -9
  // All of them, in the order of their start.
  std::vector<Ended> wait();

 private:
  TempFolder folder_;
  std::vector<int> ids_;
};

// Waits until a file is there; fails after half a minute.
void wait_for_file(const std::string& path);

}  // namespace glmtune::test
