#pragma once
// What takes more than one key of a recipe to see: contradictions, and sections without effect.
#include <string>

#include "train/recipe.h"
#include "train/recipe_reader.h"

namespace glmtune::train {

// Throws Error naming the first contradiction; adds warnings and what does not run to `checked`.
void check_keys_together(const Recipe& recipe, const RecipeReader& reader, CheckedDocument& checked,
                         const std::string& file);

}  // namespace glmtune::train
