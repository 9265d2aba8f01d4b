#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "apps/commands.h"
#include "apps/hub.h"
#include "apps/launch.h"
#include "base/cat.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "data/preview.h"
#include "models/glm_config.h"
#include "text/tokenizer.h"
#include "train/log.h"
#include "train/recipe_file.h"
#include "train/training_data.h"

namespace glmtune::apps {

int run(const PreviewCommand& command) {
  train::RecipeFile file =
      train::read_recipe(command.recipe.recipe, command.recipe.overrides, environment);
  for (const std::string& warning : file.checked.warnings) train::log_warning(warning);
  require_path(kModelKey, file.recipe.model.pretrained_model_name_or_path);
  const std::string folder = fetched_tokenizer(file.recipe.model.pretrained_model_name_or_path,
                                               file.recipe.model.revision);
  const models::GlmConfig config = models::read_glm_config(folder + "/config.json");
  train::TrainingData data(folder, config.vocab_size);
  fetch_data(file.recipe);
  const train::DatasetEntry& entry = file.recipe.dataset;
  const auto source = data.open(entry, {});

  // Packs that were made elsewhere are shown as text where there is a tokenizer.
  const std::string& tokenizer_folder = entry.tokenizer.empty() ? folder : entry.tokenizer;
  std::error_code absent;
  std::optional<text::Tokenizer> tokenizer;
  if (train::reads_text(entry) ||
      (entry.packing.prepacked &&
       std::filesystem::exists(tokenizer_folder + "/tokenizer.json", absent)))
    tokenizer = text::Tokenizer::load(tokenizer_folder);
  data::PreviewOptions options;
  options.packs = command.rows;
  options.tokens = command.tokens;
  options.color = isatty(STDOUT_FILENO) == 1;
  std::cout << data::preview(*source, tokenizer ? &*tokenizer : nullptr, options);
  return exit_status(ExitCode::kOk);
}

}  // namespace glmtune::apps
