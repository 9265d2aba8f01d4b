#include "io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/files.h"

namespace glmtune::io {
namespace {

// Others may remove a lock file when they let go of it; a lock on a removed file locks nothing.
bool is_still_there(int fd, const std::string& path) {
  struct stat held {};
  struct stat named {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace

FileLock::FileLock(const std::string& path) {
  while (true) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (fd_ < 0) fail_errno(path, "creating", errno);
    int result = 0;
    do {
      result = ::flock(fd_, LOCK_EX);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
      const int error = errno;
      if (error == ENOSYS || error == ENOTSUP || error == ENOLCK) return;
      ::close(fd_);
      fail_errno(path, "locking", error);
    }
    if (is_still_there(fd_, path)) break;
    ::close(fd_);
  }
  held_ = true;
}

FileLock::~FileLock() {
  ::close(fd_);
}

}  // namespace glmtune::io
