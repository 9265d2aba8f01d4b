#pragma once
// Integers of a JSON text that an io::Value cannot hold.
#include <string>
#include <string_view>
#include <vector>

namespace glmtune::io {

// The first integer (without fraction and exponent) of a valid JSON text that 64 signed bits do not
// hold, as it is spelled; empty where all fit. Value would make a rounded double of it. keys: only
// what lies in these members of the object; none: everywhere.
std::string first_oversized_integer(std::string_view json,
                                    const std::vector<std::string_view>& keys = {});

}  // namespace glmtune::io
