#include "apps/commands.h"
#include "base/error.h"

namespace glmtune::apps {

int run(const PreviewCommand& command) {
  fail(command.recipe.recipe + ": preview is not in this build");
}

}  // namespace glmtune::apps
