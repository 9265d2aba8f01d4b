#pragma once
// Conversion between the element types that files hold and those that memory holds.
#include <cstdint>

#include "tensor/dtype.h"

namespace glmtune::io {

// True for: equal types; F64, F32, BF16, F16, F8_E4M3 to F64, F32, BF16 or F16; I64 <-> I32.
bool convertible(DType from, DType to);

// n elements. Rounds to nearest, ties to even. A finite value beyond the range of F16 and an I64
// beyond the range of I32 are errors.
void convert_elements(const void* src, DType from, void* dst, DType to, std::int64_t n);

// E4M3 "fn": no infinities, NaN at 0x7F and 0xFF, largest value 448.
float float_from_f8_e4m3(std::uint8_t bits);
float float_from_f16(std::uint16_t bits);
std::uint16_t f16_from_float(float x);  // overflows to infinity

}  // namespace glmtune::io
