#include "io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"

namespace glmtune::io {
namespace {

constexpr std::size_t kLongestNote = 8192;

// NFS locks for writing only what is open for writing.
int open_lock_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  if (fd < 0) fail_errno(path, "opening for writing", errno);
  return fd;
}

// 0, or errno.
int lock_file(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

// Others may remove a lock file when they let go of it; a lock on a removed file locks nothing.
bool is_still_there(int fd, const std::string& path) {
  struct stat held {};
  struct stat named {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace

FileLock::FileLock(const std::string& path) : path_(path), fd_(open_lock_file(path)) {
  int error = lock_file(fd_);
  while (error == 0 && !is_still_there(fd_, path)) {
    ::close(fd_);
    fd_ = open_lock_file(path);
    error = lock_file(fd_);
  }
  if (error != 0) state_ = error == EWOULDBLOCK ? State::kBusy : State::kUnsupported;
  std::array<char, kLongestNote> text{};
  const ssize_t n = ::pread(fd_, text.data(), text.size(), 0);
  if (n > 0) note_.assign(text.data(), static_cast<std::size_t>(n));
  while (!note_.empty() && note_.back() == '\n') note_.pop_back();
}

FileLock::~FileLock() {
  ::close(fd_);
}

bool FileLock::is_busy(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const bool busy = lock_file(fd) == EWOULDBLOCK;
  ::close(fd);
  return busy;
}

void FileLock::set_note(const std::string& note) {
  note_ = note.substr(0, kLongestNote - 1);
  const std::string line = note_ + "\n";
  // The note is a courtesy: on a full disk the lock holds without it.
  if (::ftruncate(fd_, 0) == 0) (void)!::pwrite(fd_, line.data(), line.size(), 0);
}

// Asks again and again: inside flock a process would neither see whom it waits for nor could it be
// called off; and on NFS the server may take a minute to say that a lock is free.
std::unique_ptr<FileLock> wait_for_lock(const std::string& path,
                                        const std::function<void(const std::string&)>& busy) {
  constexpr std::chrono::milliseconds kFirst{20}, kLongest{1000};
  for (auto pause = kFirst;; pause = std::min(pause * 3 / 2, kLongest)) {
    auto lock = std::make_unique<FileLock>(path);
    if (lock->state() != FileLock::State::kBusy) return lock;
    busy(lock->note());
    lock.reset();
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace glmtune::io
