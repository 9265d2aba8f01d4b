#include "base/error.h"

namespace glmtune {

void fail(const std::string& message) {
  throw Error(message);
}
void fail_machine(const std::string& message) {
  throw MachineError(message);
}

}  // namespace glmtune
