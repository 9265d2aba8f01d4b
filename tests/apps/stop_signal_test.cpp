#include "apps/stop_signal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>

namespace glmtune::apps {
namespace {

constexpr std::array<int, 2> kSignals{SIGTERM, SIGUSR1};

// What waitpid says of a process that handles kSignals and runs `body`.
int status_of(const std::function<int()>& body) {
  const pid_t process = ::fork();
  if (process == 0) {
    handle_stop_signals(kSignals);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  return status;
}

// Slurm's --signal=USR1@300, then SIGTERM at the time limit while the last save still runs.
TEST(StopSignal, AnotherSignalAfterTheFirstLeavesTheSaveToEnd) {
  const int status = status_of([] {
    for (const int number : {SIGUSR1, SIGTERM, SIGTERM, SIGINT}) std::raise(number);
    return stop_signal() == SIGUSR1 ? 7 : 1;
  });
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(StopSignal, ASecondCtrlCEndsAtOnce) {
  const int status = status_of([] {
    std::raise(SIGINT);
    std::raise(SIGINT);
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

// What a script starts in the background must outlive the Ctrl-C that ends the script.
TEST(StopSignal, AnIgnoredInterruptStaysIgnored) {
  const auto before = std::signal(SIGINT, SIG_IGN);
  const int status = status_of([] {
    std::raise(SIGINT);
    std::raise(SIGINT);
    return stop_signal() == 0 ? 7 : 1;
  });
  std::signal(SIGINT, before);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(StopSignal, TheHandlerKeepsErrno) {
  const int status = status_of([] {
    ::close(STDERR_FILENO);  // its message then fails
    errno = ENOSPC;
    std::raise(SIGINT);
    return errno == ENOSPC ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace glmtune::apps
