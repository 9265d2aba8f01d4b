#pragma once
// cat(a, b, ...) joins values into one string: for messages, also in files nvcc compiles (no fmt
// there).
#include <sstream>
#include <string>

namespace glmtune {

template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

}  // namespace glmtune
