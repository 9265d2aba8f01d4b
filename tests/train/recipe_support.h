#pragma once
// A small recipe and ways to read it.
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/recipe_file.h"

namespace glmtune::train {

inline const char* const kSmallRecipe = R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
model:
  pretrained_model_name_or_path: /models/tiny
step_scheduler:
  max_steps: 3
dataset:
  _target_: nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset
  path_or_dataset_id: chat.jsonl
optimizer:
  _target_: torch.optim.AdamW
)";

inline RecipeFile parse(const std::string& text, const std::vector<std::string>& overrides = {},
                        const std::map<std::string, std::string>& environment = {}) {
  return parse_recipe(text, "recipe.yaml", overrides, [&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}
inline RecipeFile small(const std::vector<std::string>& overrides = {}) {
  return parse(kSmallRecipe, overrides);
}

// The message of the error that parsing gives; empty when it gives none.
inline std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {},
                            const std::map<std::string, std::string>& environment = {}) {
  try {
    parse(text, overrides, environment);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
inline std::string small_error(const std::vector<std::string>& overrides) {
  return error_of(kSmallRecipe, overrides);
}

inline const io::Value& value(const RecipeFile& file, const std::string& path) {
  const CheckedKey* key = file.checked.find(path);
  if (key == nullptr) fail("no key " + path);
  return key->value;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace glmtune::train
