#include <iostream>

#include "apps/check_report.h"
#include "apps/commands.h"
#include "apps/launch.h"
#include "base/cat.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "train/log.h"
#include "train/run_checkpoints.h"

namespace glmtune::apps {
namespace {

// ci is not checked, so anything may stand there.
std::optional<std::int64_t> ci_nodes(const train::CheckedDocument& checked) {
  const train::CheckedKey* ci = checked.find("ci");
  const io::Value* nodes =
      ci == nullptr || !ci->value.is_object() ? nullptr : ci->value.find("nodes");
  if (nodes == nullptr || !nodes->is_int() || nodes->as_int() < 1) return std::nullopt;
  return nodes->as_int();
}

// For a world that was asked for, a conflict is an error. Where none was and the recipe's own does
// not fit its settings, as after overrides for one machine, one rank is planned: what runs here.
train::RecipePlan plan_of(const CheckCommand& command, const train::RecipeFile& file,
                          const models::GlmConfig* model) {
  train::RecipePlan plan =
      train::plan_recipe(file.recipe, model, command.world_size, ci_nodes(file.checked));
  if (plan.conflicts.empty()) return plan;
  if (command.world_size) {
    std::string lines;
    for (const std::string& conflict : plan.conflicts)
      lines += (lines.empty() ? "" : "\n") + conflict;
    fail(cat(command.recipe.recipe, ": ", lines));
  }
  train::RecipePlan one = train::plan_recipe(file.recipe, model, 1, std::nullopt);
  if (plan.world_size <= 1 || !one.conflicts.empty()) return plan;
  one.world_size_from = "what runs here";
  one.notes.push_back(cat("the recipe's own ", plan.world_size, " ranks (", plan.world_size_from,
                          ") do not fit these settings: --world-size ", plan.world_size,
                          " says why"));
  return one;
}

// Errors of what is done say which recipe they are of.
template <class Action>
void with_place(const std::string& recipe, const Action& action) {
  try {
    action();
  } catch (const MachineError&) {
    throw;
  } catch (const Error& e) {
    fail(cat(recipe, ": ", e.what()));
  }
}

}  // namespace

int run(const CheckCommand& command) {
  const std::string& path = command.recipe.recipe;
  train::RecipeFile file = train::read_recipe(path, command.recipe.overrides, environment);
  const std::optional<ModelFacts> model = model_facts(file.recipe);
  if (model) train::use_vocabulary(file, model->config.vocab_size);
  CheckReport report{.recipe_path = path,
                     .file = file,
                     .world_asked = command.world_size,
                     .model = model,
                     .data = data_facts(file.recipe),
                     .plan = plan_of(command, file, model ? &model->config : nullptr),
                     .rows = {},
                     .steps = {},
                     .memory = {},
                     .reasons = {},
                     .unchecked = {}};
  with_place(path, [&] { train::check_restore_from(file.recipe); });
  read_rows(report);
  with_place(path, [&] {
    check_schedule(report);
    check_overrides(report);
  });
  report.memory = rank_memory(report, report.plan, std::nullopt);
  judge(report);
  for (const std::string& warning : file.checked.warnings) train::log_warning(warning);
  if (command.json) {
    std::cout << io::to_json(to_value(report), {.indent = 1}) << "\n";
  } else {
    std::cout << to_text(report);
  }
  return exit_status(ExitCode::kOk);
}

}  // namespace glmtune::apps
