#pragma once
// Numbers for people.
#include <cstdint>
#include <string>

namespace glmtune {

// Digits in groups of three: 1234567 as "1,234,567", -1000 as "-1,000".
std::string grouped(std::int64_t n);

}  // namespace glmtune
