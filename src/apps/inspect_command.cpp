#include <iostream>

#include "apps/commands.h"
#include "apps/hub.h"
#include "base/exit_code.h"
#include "io/json.h"
#include "models/inspect.h"

namespace glmtune::apps {

int run(const InspectCommand& command) {
  const models::Inspection inspection = models::inspect(local_model(command.path));
  if (command.json) {
    std::cout << io::to_json(models::to_value(inspection)) << "\n";
  } else {
    std::cout << models::to_text(inspection);
  }
  return exit_status(inspection.problems.empty() ? ExitCode::kOk : ExitCode::kUserError);
}

}  // namespace glmtune::apps
