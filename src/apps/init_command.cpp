#include <atomic>
#include <csignal>
#include <filesystem>
#include <iostream>

#include "apps/commands.h"
#include "apps/stop_signal.h"
#include "base/cat.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "models/random_init.h"
#include "train/schema_scalar.h"

namespace glmtune::apps {

namespace {

std::atomic<int> g_stop{0};

extern "C" void note_signal(int number) {
  g_stop = number;
}

// A signal ends the writing with its half-made folder removed; a second one ends at once.
void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    if (!is_ignored(number)) sigaction(number, &action, nullptr);
}

models::InitReport write_checkpoint(const std::string& config, const InitCommand& command,
                                    models::InitOptions options) {
  stop_on_signals();
  options.stop = &g_stop;
  return models::write_random_checkpoint(config, command.out, options);
}

}  // namespace

int run(const InitCommand& command) {
  models::InitOptions options;
  options.seed = command.seed;
  if (!command.dtype.empty()) {
    options.dtype = train::dtype_from_text(command.dtype);
    if (!options.dtype)
      fail(cat("--dtype ", command.dtype, ": expected float32, bfloat16, float16 or float64"));
  }
  if (command.out.empty()) fail("OUT is empty; expected the folder to write");
  std::filesystem::path config = command.config;
  std::error_code error;
  if (std::filesystem::is_directory(config, error)) config /= "config.json";
  models::InitReport report;
  try {
    report = write_checkpoint(config.string(), command, options);
  } catch (const models::InitInterrupted&) {
    std::cerr << "glmtune: stopped by a signal; nothing is left of " << command.out << "\n";
    return exit_status(ExitCode::kPreempted);
  }
  std::cout << command.out << ": " << report.parameters << " parameters in " << report.tensors
            << " tensors, " << name_of(report.dtype) << ", " << report.bytes << " bytes in "
            << report.weight_files.size() << " file(s)\n";
  for (const std::string& file : report.copied_files) std::cout << "copied " << file << "\n";
  return exit_status(ExitCode::kOk);
}

}  // namespace glmtune::apps
