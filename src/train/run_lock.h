#pragma once
// RunLock: a run has its checkpoint_dir to itself. Two at once would write into the same logs and
// step folders.
#include <string>

#include "io/file_lock.h"

namespace glmtune::train {

class RunLock {
 public:
  // Makes the folder where it is missing. Error where it cannot be made or written, and where
  // another run works in it: then with that run's process and host.
  explicit RunLock(const std::string& folder);

 private:
  io::FileLock lock_;
};

}  // namespace glmtune::train
