#pragma once
// bfloat16 as storage: the upper half of a float. Arithmetic happens in float.
#include <bit>
#include <cstdint>

namespace glmtune {

struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  // Round to nearest, ties to even; NaN stays NaN.
  explicit BFloat16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<std::uint16_t>((u >> 16) | 0x40u)
               : static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit BFloat16(double x) : BFloat16(static_cast<float>(x)) {}
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static BFloat16 from_bits(std::uint16_t b) {
    BFloat16 r;
    r.bits = b;
    return r;
  }
};
static_assert(sizeof(BFloat16) == 2);

}  // namespace glmtune
