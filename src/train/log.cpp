#include "train/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

#include "base/cat.h"

namespace glmtune::train {
namespace {

struct Log {
  LogOptions options;
  std::function<void()> before_line;
  std::shared_ptr<spdlog::logger> out = std::make_shared<spdlog::logger>(
      "glmtune", std::make_shared<spdlog::sinks::stdout_sink_mt>());
  std::shared_ptr<spdlog::logger> err = std::make_shared<spdlog::logger>(
      "glmtune", std::make_shared<spdlog::sinks::stderr_sink_mt>());
};

Log& log_state() {
  static Log log;
  return log;
}

// spdlog spells levels in lower case; the lines here have them in upper case.
void print(spdlog::logger& logger, const char* level, const std::string& text) {
  Log& log = log_state();
  if (log.before_line) log.before_line();
  logger.set_pattern(cat("%Y-%m-%d %H:%M:%S | ", level, " | %n | %v"));
  logger.log(spdlog::level::info, "{}", text);
  logger.flush();
}

}  // namespace

void set_up_log(const LogOptions& options) {
  log_state().options = options;
}

void log_info(const std::string& text) {
  const LogOptions& options = log_state().options;
  if (options.rank == 0 && options.information) print(*log_state().out, "INFO", text);
}

void log_warning(const std::string& text) {
  if (log_state().options.rank == 0) print(*log_state().err, "WARNING", text);
}

void log_error(const std::string& text) {
  const int rank = log_state().options.rank;
  print(*log_state().err, "ERROR", rank == 0 ? text : cat("rank ", rank, ": ", text));
}

std::function<void()> set_before_log_line(std::function<void()> hook) {
  return std::exchange(log_state().before_line, std::move(hook));
}

}  // namespace glmtune::train
