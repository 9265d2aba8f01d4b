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
#include "train/named_errors.h"
#include "train/recipe_file.h"
#include "train/training_data.h"

namespace glmtune::apps {

namespace {

// How the packs are numbered, and what training makes of that.
std::string order_of(const train::Recipe& recipe) {
  const train::DatasetEntry& entry = recipe.dataset;
  const auto selection_seed = std::visit(
      [](const auto& settings) -> std::optional<std::uint64_t> {
        if constexpr (requires { settings.rows; }) return settings.rows.shuffle_seed;
        return std::nullopt;
      },
      entry.settings);
  std::string text;
  if (entry.packing.packed_sequence_size > 0 && entry.packing.shuffle && !entry.packing.prepacked)
    text = cat("samples are shuffled (seed ", entry.packing.seed, ") before they are packed");
  else if (selection_seed)
    text = cat("as ", entry.key, ".shuffle_seed ", *selection_seed, " shuffles the rows");
  else
    text = "as the rows stand in the files";
  return text +
         (recipe.dataloader.shuffle ? "; training takes the packs in another order in each epoch "
                                      "(dataloader.shuffle)"
                                    : "; training takes the packs in this order") +
         (recipe.dataloader.group_by_length
              ? ", the longest of a global batch first (dataloader.group_by_length)"
              : "");
}

}  // namespace

int run(const PreviewCommand& command) {
  train::RecipeFile file =
      train::read_recipe(command.recipe.recipe, command.recipe.overrides, environment);
  for (const std::string& warning : file.checked.warnings) train::log_warning(warning);
  const train::ModelSettings& model = file.recipe.model;
  require_path(model.place, model.pretrained_model_name_or_path);
  std::string folder;
  const models::GlmConfig config = train::named(model.place, [&] {
    folder = fetched_tokenizer(model.pretrained_model_name_or_path, model.revision);
    return models::read_glm_config(folder + "/config.json");
  });
  train::TrainingData data(folder, config.vocab_size);
  fetch_data(file.recipe);
  const train::DatasetEntry& entry = file.recipe.dataset;
  const auto source = data.open(entry, {.rows = {}, .notice = train::log_warning});

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
  options.order = order_of(file.recipe);
  std::cout << data::preview(*source, tokenizer ? &*tokenizer : nullptr, options);
  return exit_status(ExitCode::kOk);
}

}  // namespace glmtune::apps
