#include <iostream>

#include "apps/commands.h"
#include "base/exit_code.h"
#include "train/recipe_docs.h"

namespace glmtune::apps {

int run(const DocsRecipeCommand&) {
  std::cout << train::recipe_docs();
  return exit_status(ExitCode::kOk);
}

}  // namespace glmtune::apps
