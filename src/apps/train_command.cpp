#include <unistd.h>

#include "apps/commands.h"
#include "apps/hub.h"
#include "apps/launch.h"
#include "apps/stop_signal.h"
#include "base/cat.h"
#include "base/error.h"
#include "cuda/device.h"
#include "train/log.h"
#include "train/recipe_file.h"
#include "train/recipe_plan.h"
#include "train/trainer.h"

namespace glmtune::apps {

int run(const TrainCommand& command) {
  const Launch launch = detect_launch(environment);
  require_one_rank(launch, command.nproc_per_node);
  train::RecipeFile file =
      train::read_recipe(command.recipe.recipe, command.recipe.overrides, environment);
  for (const std::string& warning : file.checked.warnings) train::log_warning(warning);
  if (const std::string line = train::not_runnable_line(file.checked); !line.empty())
    fail(cat(command.recipe.recipe, ": ", line, train::runs_with(file.checked)));
  const train::RecipePlan plan = train::plan_recipe(file.recipe, nullptr, launch.world_size, {});
  for (const std::string& conflict : plan.conflicts)
    fail(cat(command.recipe.recipe, ": ", conflict));
  require_path(file.recipe.model.place, file.recipe.model.pretrained_model_name_or_path);
  // Before the signals are handled: Ctrl-C ends a download at once, the next run continues it.
  fetch_data(file.recipe);
  fetch_model(file.recipe);
  std::string list;
  for (const std::string& key : file.checked.no_counterpart)
    list += (list.empty() ? "" : ", ") + key;
  for (const std::string& line : train::backend_choices(file.checked)) train::log_info(line);
  if (!list.empty()) train::log_info("accepted, without a counterpart here: " + list);
  train::log_info(cat("Config: ", command.recipe.recipe, "\n", file.yaml));

  // Before anything long begins, so that Ctrl-C never loses a finished step.
  handle_stop_signals(file.recipe.step_scheduler.preemption_signals);
  std::string why;
  train::TrainOptions options;
  options.stop_signal = &stop_signal();
  options.terminal = isatty(STDOUT_FILENO) == 1;
  options.hub = local_hub_cache();
  options.device = train::choose_device(&why);
  train::log_info(options.device == Device::kCuda ? cat("device: ", cuda_device_info(0).name)
                                                  : cat("device: CPU (", why, ")"));
  if (const std::string line = idle_gpus_warning(cuda_device_count(nullptr)); !line.empty())
    train::log_warning(line);
  return train::run_training(file.recipe, options);
}

}  // namespace glmtune::apps
