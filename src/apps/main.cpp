#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "apps/command_line.h"
#include "base/exit_code.h"

namespace {

// OpenMP's threads spin at every barrier unless told otherwise. Where other processes want the
// cores as well (shared nodes, containers with a CPU quota) a spinning thread keeps the one it
// waits for from running: measured, a step took twelve times as long. The run time reads its
// settings before main(), so the program starts itself once more with the setting in place; a
// setting of the user's is kept.
void wait_without_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (setenv("OMP_WAIT_POLICY", "passive", 1) != 0) return;
  execv("/proc/self/exe", argv);  // returns only when it failed: then this process goes on as it is
}

// A file that is opened later must not become standard output, and what is printed be written
// there.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

// The run time of OpenMP ends a process without a word when it cannot start its threads.
bool thread_count_is_sane() {
  constexpr long kMostThreads = 4096;
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || std::strtol(text, nullptr, 10) <= kMostThreads) return true;
  std::fprintf(stderr, "glmtune: error: OMP_NUM_THREADS is %s; expected a number up to %ld\n", text,
               kMostThreads);
  return false;
}

// A data set's or a model's files stay open, one descriptor each, and the usual limit of 1024 is
// one of old programs' and meant to be raised.
void allow_many_open_files() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);  // where it is refused the smaller limit holds
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  if (!thread_count_is_sane()) return glmtune::exit_status(glmtune::ExitCode::kUserError);
  wait_without_spinning(argv);
  allow_many_open_files();
  // A file beyond the size a shell or a batch system allows is then an error of the write, with a
  // message and the files in order, and not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  // A reader of the output that has gone (`| tee log`, `| head`) or a connection that breaks while
  // something is sent must not end a training run.
  std::signal(SIGPIPE, SIG_IGN);
  return glmtune::apps::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
}
