#pragma once
// FileLock: a file that one process at a time holds (flock, exclusive, as the Hugging Face client
// locks its cache). The kernel releases it when the process ends in any way, so that nothing stale
// is left behind; on NFS it holds between machines too. The file itself stays.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace glmtune::io {

class FileLock {
 public:
  enum class State : std::uint8_t {
    kHeld,
    kBusy,         // another process (or another FileLock of this one) holds it
    kUnsupported,  // the file system has no locks
  };

  // Creates the file where it is missing; Error where that is not allowed.
  explicit FileLock(const std::string& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  // Whether another holds a lock file that is there; unlike a FileLock, it never makes one.
  static bool is_busy(const std::string& path);

  State state() const { return state_; }
  // What the file says: when busy, of its holder; when held, what the last one left.
  const std::string& note() const { return note_; }
  // Replaces what the file says; only for the holder.
  void set_note(const std::string& note);

 private:
  std::string path_, note_;
  int fd_ = -1;
  State state_ = State::kHeld;
};

// The lock, held or unsupported, as soon as nobody else holds it. `busy` is called now and then
// with the holder's note; what it throws ends the wait.
std::unique_ptr<FileLock> wait_for_lock(const std::string& path,
                                        const std::function<void(const std::string&)>& busy);

}  // namespace glmtune::io
