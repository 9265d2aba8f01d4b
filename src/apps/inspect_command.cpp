#include <filesystem>
#include <iostream>

#include "apps/commands.h"
#include "apps/hub.h"
#include "base/cat.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "io/json.h"
#include "models/inspect.h"
#include "train/training_state.h"

namespace glmtune::apps {
namespace {

namespace fs = std::filesystem;

// The Hugging Face folder to look into: of a step folder the one inside it.
std::string model_folder(const std::string& path) {
  const fs::path folder(path);
  const bool is_step = fs::exists(folder / "state.json") && fs::exists(folder / "config.yaml");
  if (!is_step) return path;
  const fs::path exported = folder / "model/consolidated";
  if (fs::exists(exported)) return exported.string();
  fail(cat(path, ": is a checkpoint of a training run (after ",
           train::read_position(path).next_step,
           " steps) without a Hugging Face folder: checkpoint.save_consolidated: final writes one "
           "with a run's last step only, every with each checkpoint. To write this one's into "
           "another folder:\n  ",
           train::export_command(path)));
}

}  // namespace

int run(const InspectCommand& command) {
  const models::Inspection inspection = models::inspect(model_folder(local_model(command.path)));
  if (command.json) {
    std::cout << io::to_json(models::to_value(inspection)) << "\n";
  } else {
    std::cout << models::to_text(inspection);
  }
  return exit_status(inspection.problems.empty() ? ExitCode::kOk : ExitCode::kUserError);
}

}  // namespace glmtune::apps
