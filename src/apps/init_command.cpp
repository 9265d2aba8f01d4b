#include <filesystem>
#include <iostream>

#include "apps/commands.h"
#include "base/cat.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "models/random_init.h"
#include "train/schema_scalar.h"

namespace glmtune::apps {

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
  const models::InitReport report =
      models::write_random_checkpoint(config.string(), command.out, options);
  std::cout << command.out << ": " << report.parameters << " parameters in " << report.tensors
            << " tensors, " << name_of(report.dtype) << ", " << report.bytes << " bytes in "
            << report.weight_files.size() << " file(s)\n";
  for (const std::string& file : report.copied_files) std::cout << "copied " << file << "\n";
  return exit_status(ExitCode::kOk);
}

}  // namespace glmtune::apps
