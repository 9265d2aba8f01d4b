#pragma once
// Errors that say which key of the recipe led to them.
#include <string>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::train {

// What `work` gives; its errors begin with `place`, such as "recipe.yaml:12: dataset".
template <class Work>
auto named(const std::string& place, const Work& work) {
  try {
    return work();
  } catch (const MachineError& e) {
    fail_machine(cat(place, ": ", e.what()));
  } catch (const Error& e) {
    fail(cat(place, ": ", e.what()));
  }
}

}  // namespace glmtune::train
