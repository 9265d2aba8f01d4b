#include "train/run_lock.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/this_process.h"
#include "train/log.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;
constexpr const char* kName = ".lock";

[[noreturn]] void refuse(const std::string& folder, const std::string& why) {
  fail(cat("checkpoint.checkpoint_dir: ", folder, ": ", why));
}

// The path of the lock file; the folder can be written after this.
std::string prepared(const std::string& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error))
    refuse(folder, "is a file; expected a folder, or a name that is free");
  fs::create_directories(folder, error);
  if (error && !io::is_users_error(error.value()))
    io::fail_errno(folder, "creating", error.value());
  if (error)
    refuse(folder,
           cat("the folder cannot be made: ", error.message(), "; name one that can be written"));
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    refuse(folder, cat("cannot be written: ", std::strerror(errno), "; name one that can"));
  return (fs::path(folder) / kName).string();
}

}  // namespace

RunLock::RunLock(const std::string& folder) : lock_(prepared(folder)) {
  switch (lock_.state()) {
    case io::FileLock::State::kBusy:
      refuse(folder, cat("another run works in it (",
                         lock_.note().empty() ? "it has not said which" : lock_.note(),
                         "); wait until it ends, stop it, or name another folder"));
    case io::FileLock::State::kUnsupported:
      log_warning(cat("checkpoint.checkpoint_dir: ", folder, ": the file system has no locks; ",
                      "nothing keeps a second run out of this folder"));
      break;
    case io::FileLock::State::kHeld:
      lock_.set_note(io::this_process());
      break;
  }
}

}  // namespace glmtune::train
