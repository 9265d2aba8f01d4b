#include "support/crash.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>

namespace glmtune::test {
namespace {

// The text a pointer of the stopped process names, as far as it can be read.
std::string text_at(pid_t process, unsigned long long address) {
  char buffer[512] = {};
  iovec here{buffer, sizeof buffer - 1};
  iovec there{reinterpret_cast<void*>(address), sizeof buffer - 1};
  // A page's end may cut the text's neighbourhood: read what there is.
  for (std::size_t n = here.iov_len; n > 0; n /= 2) {
    here.iov_len = there.iov_len = n;
    if (::process_vm_readv(process, &here, 1, &there, 1, 0) > 0) return buffer;
  }
  return "";
}

struct Change {
  const char* name = nullptr;  // null: this call changes nothing
  std::string path;            // of calls that name one
};

Change change_of(pid_t process, const user_regs_struct& r) {
  switch (r.orig_rax) {
    case SYS_open:
      if ((r.rsi & O_CREAT) != 0) return {"open", text_at(process, r.rdi)};
      return {};
    case SYS_openat:
      if ((r.rdx & O_CREAT) != 0) return {"openat", text_at(process, r.rsi)};
      return {};
    case SYS_write:
      if (r.rdi > 2) return {"write", ""};
      return {};
    case SYS_fsync:
      return {"fsync", ""};
    case SYS_rename:
      return {"rename", text_at(process, r.rsi)};
    case SYS_symlink:
      return {"symlink", text_at(process, r.rsi)};
    case SYS_mkdir:
      return {"mkdir", text_at(process, r.rdi)};
    case SYS_unlink:
    case SYS_rmdir:
      return {"unlink", text_at(process, r.rdi)};
    case SYS_unlinkat:
      return {"unlinkat", text_at(process, r.rsi)};
    case SYS_renameat:
    case SYS_renameat2:
      return {"renameat", text_at(process, r.r10)};
    default:
      return {};
  }
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

CrashResult trace(pid_t process, const CrashPoint& point) {
  CrashResult result;
  int status = wait_for(process);
  if (!WIFSTOPPED(status)) return result;  // PTRACE_TRACEME was refused
  result.traced = true;
  ::ptrace(PTRACE_SETOPTIONS, process, nullptr,
           PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC);
  bool counting = false, inside = false;  // counting changes; inside a system call
  long signal = 0;
  while (true) {
    ::ptrace(PTRACE_SYSCALL, process, nullptr, signal);
    signal = 0;
    status = wait_for(process);
    if (WIFEXITED(status) || WIFSIGNALED(status)) break;
    const bool at_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
    if (!at_call) {
      if (status >> 8 != (SIGTRAP | (PTRACE_EVENT_EXEC << 8))) signal = WSTOPSIG(status);
      continue;
    }
    inside = !inside;
    if (!inside) continue;
    user_regs_struct registers{};
    ::ptrace(PTRACE_GETREGS, process, nullptr, &registers);
    const Change change = change_of(process, registers);
    if (change.name == nullptr) continue;
    counting = counting || change.path.find(point.from) != std::string::npos;
    if (!counting) continue;
    if (point.at && result.changes == *point.at) {
      ::kill(process, SIGKILL);
      wait_for(process);
      result.killed = true;
      result.killed_before = change.name + (" " + change.path);
      return result;
    }
    ++result.changes;
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

void begin_traced() {
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(0);
  ::raise(SIGSTOP);
}

}  // namespace

CrashResult run_and_crash(const CrashPoint& point, const std::function<void()>& body) {
  const pid_t process = ::fork();
  if (process == 0) {
    begin_traced();
    int status = 0;
    try {
      body();
    } catch (const std::exception&) {
      status = 1;
    }
    ::_exit(status);
  }
  return trace(process, point);
}

CrashResult run_program_and_crash(const CrashPoint& point, const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
  arguments.push_back(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    const int nothing = ::open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) ::dup2(nothing, fd);
    ::setenv("OMP_WAIT_POLICY", "passive", 1);
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // the leak check itself needs ptrace
    begin_traced();
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  return trace(process, point);
}

}  // namespace glmtune::test
