#pragma once
// Integers of a JSON text that an io::Value cannot hold.
#include <string>
#include <string_view>

namespace glmtune::io {

// The first integer (without fraction and exponent) of a valid JSON text that 64 signed bits do not
// hold, as it is spelled; empty where all fit. Value would make a rounded double of it.
std::string first_oversized_integer(std::string_view json);

}  // namespace glmtune::io
