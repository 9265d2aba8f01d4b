#include "apps/commands.h"
#include "apps/hub.h"
#include "base/error.h"

namespace glmtune::apps {

int run(const VerifyCommand& command) {
  if (command.nproc_per_node > 1 || command.ep > 1 || command.cp > 1)
    fail("--nproc-per-node, --ep and --cp above 1: several ranks do not run yet");
  train::VerifyOptions options = command.options;
  options.model = fetched_model(options.model);
  return train::run_verify(options);
}

}  // namespace glmtune::apps
