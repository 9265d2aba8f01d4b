#pragma once
// docs/recipe.md, written from the schema table.
#include <string>

namespace glmtune::train {

std::string recipe_docs();

}  // namespace glmtune::train
