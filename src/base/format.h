#pragma once
// Numbers and words for people.
#include <cstdint>
#include <string>

namespace glmtune {

// Digits in groups of three: 1234567 as "1,234,567", -1000 as "-1,000".
std::string grouped(std::int64_t n);

// A word of a command line as a shell takes it: as it is, or in single quotes where it has other
// characters than letters, digits and _ @ % + = : , . / -.
std::string shell_word(const std::string& word);

}  // namespace glmtune
