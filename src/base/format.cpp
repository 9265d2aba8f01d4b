#include "base/format.h"

namespace glmtune {

std::string grouped(std::int64_t n) {
  std::string text = std::to_string(n);
  const std::size_t first = n < 0 ? 2 : 1;  // no comma in front of the first digit
  for (std::size_t at = text.size(); at > first + 2; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

}  // namespace glmtune
