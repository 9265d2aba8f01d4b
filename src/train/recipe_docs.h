#pragma once
// docs/recipe.md, written from the schema table.
#include <string>
#include <string_view>

namespace glmtune::train {

std::string recipe_docs();

// The page's first example: the least a recipe needs to train.
std::string_view minimal_recipe();

}  // namespace glmtune::train
