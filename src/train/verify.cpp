#include "train/verify.h"

#include "base/error.h"

namespace glmtune::train {

int run_verify(const VerifyOptions& options) {
  fail(options.model + ": verify is not in this build");
}

}  // namespace glmtune::train
