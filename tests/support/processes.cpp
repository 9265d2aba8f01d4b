#include "support/processes.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::test {
namespace {

constexpr int kFailed = 3;

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

void Processes::start(const std::function<std::string()>& body) {
  const std::string said = folder_ / cat(ids_.size());
  const pid_t child = ::fork();
  check(child >= 0, "no process can be forked");
  if (child > 0) {
    ids_.push_back(child);
    return;
  }
  ::alarm(60);
  int status = 0;
  std::string text;
  try {
    text = body();
  } catch (const std::exception& e) {
    text = e.what();
    status = kFailed;
  }
  std::ofstream(said, std::ios::binary) << text << std::flush;
  ::_exit(status);
}

void Processes::kill(std::size_t process) const {
  ::kill(ids_.at(process), SIGKILL);
}

std::vector<Ended> Processes::wait() {
  std::vector<Ended> out;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    int status = 0;
    check(::waitpid(ids_[i], &status, 0) == ids_[i], "a process is not there to be waited for");
    out.push_back({.said = text_of(folder_ / cat(i)),
                   .failed = WIFEXITED(status) && WEXITSTATUS(status) == kFailed,
                   .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0});
  }
  ids_.clear();
  return out;
}

void wait_for_file(const std::string& path) {
  for (int i = 0; i < 3000 && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  check(std::filesystem::exists(path), cat(path, " does not appear"));
}

}  // namespace glmtune::test
