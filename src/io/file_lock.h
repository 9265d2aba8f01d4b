#pragma once
// A lock that processes of one machine, or of several over a shared file system, take on a file
// (flock, as the Hugging Face client does). The system lets go of it when its holder ends.
#include <string>

namespace glmtune::io {

class FileLock {
 public:
  // Waits for the lock; `path` is created where it is not there and stays. On a file system
  // without locks held() is false.
  explicit FileLock(const std::string& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();
  bool held() const { return held_; }

 private:
  int fd_ = -1;
  bool held_ = false;
};

}  // namespace glmtune::io
