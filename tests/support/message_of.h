#pragma once
#include <string>

#include "base/error.h"

namespace glmtune::test {

// The message of the Error that `f` ends in; "no error" when it does not.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace glmtune::test
