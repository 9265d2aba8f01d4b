#pragma once
// Normal numbers from random bits by Box and Muller's transform: sqrt(−2 ln u) · cos 2πv, sin 2πv.
// Written in operations that IEEE 754 rounds exactly (+, −, ·, ÷, √, fused multiply-add), with
// every product that meets a sum fused by hand: the same bits with every compiler, vector width and
// device, and within 1.5 units in the last place of a double of the mathematical functions.
#include <bit>
#include <cmath>
#include <cstdint>

#include "ops/philox.h"

namespace glmtune::ops {

#ifdef __CUDA_ARCH__
GLMTUNE_HOST_DEVICE inline double from_bits(std::uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}
GLMTUNE_HOST_DEVICE inline std::uint64_t to_bits(double x) {
  return static_cast<std::uint64_t>(__double_as_longlong(x));
}
#else
inline double from_bits(std::uint64_t bits) {
  return std::bit_cast<double>(bits);
}
inline std::uint64_t to_bits(double x) {
  return std::bit_cast<std::uint64_t>(x);
}
#endif

// 2^52 + n is the number whose low bits are n: an exact conversion that vectorises.
GLMTUNE_HOST_DEVICE inline double exact(std::uint32_t n) {
  return from_bits(0x4330000000000000ULL | n) - 0x1p52;
}

// ln x of a normal x > 0. x = 2^k m with m in [√½, √2), f = m − 1, s = f / (2 + f):
// ln m = 2 artanh s = f − s (f − 2 s² (1/3 + s²/5 + s⁴/7 + …)).
GLMTUNE_HOST_DEVICE inline double natural_log(double x) {
  constexpr std::uint64_t kSqrtHalf = 0x3FE6A09E00000000ULL;
  const std::uint64_t shifted = to_bits(x) - kSqrtHalf;  // k in the upper 12 bits
  const std::uint64_t mantissa = (shifted & 0x000FFFFFFFFFFFFFULL) + kSqrtHalf;
  // k lies in −1022 … 1023, so that k + 1024 is what the upper bits hold of shifted + 2^62.
  const double k = exact(static_cast<std::uint32_t>((shifted + (1ULL << 62)) >> 52)) - 1024.0;
  const double f = from_bits(mantissa) - 1.0;
  const double s = f / (2.0 + f), z = s * s;
  double p = 1.0 / 21;
  p = std::fma(p, z, 1.0 / 19);
  p = std::fma(p, z, 1.0 / 17);
  p = std::fma(p, z, 1.0 / 15);
  p = std::fma(p, z, 1.0 / 13);
  p = std::fma(p, z, 1.0 / 11);
  p = std::fma(p, z, 1.0 / 9);
  p = std::fma(p, z, 1.0 / 7);
  p = std::fma(p, z, 1.0 / 5);
  p = std::fma(p, z, 1.0 / 3);
  // ln 2 in two parts; the first has 32 zero bits at its end, so that k times it is exact.
  constexpr double kLn2High = 0x1.62E42FEEp-1, kLn2Low = 0x1.A39EF35793C76p-33;
  const double correction = s * std::fma(-2.0 * z, p, f);
  const double low = std::fma(-k, kLn2Low, correction);
  return std::fma(k, kLn2High, f - low);
}

struct SinCos {
  double sin, cos;
};

// Of an angle in [0, 2π]: the nearest quarter turn is taken off in two parts, the rest, at most
// π/4, goes into the Taylor series.
GLMTUNE_HOST_DEVICE inline SinCos sine_cosine(double angle) {
  constexpr double kTurn = 0.63661977236758134308;                              // 2/π
  constexpr double kHigh = 0x1.921FB54442D18p+0, kLow = 0x1.1A62633145C07p-54;  // π/2
  // Adding 1.5·2^52 rounds to an integer and leaves it in the low bits.
  const double shifted = std::fma(angle, kTurn, 0x1.8p52);
  const std::uint64_t quarter = to_bits(shifted);
  const double q = shifted - 0x1.8p52;
  const double x = std::fma(-q, kLow, std::fma(-q, kHigh, angle));
  const double z = x * x;
  double s = 1.0 / 355687428096000;  // 17!
  s = std::fma(s, z, -1.0 / 1307674368000);
  s = std::fma(s, z, 1.0 / 6227020800);
  s = std::fma(s, z, -1.0 / 39916800);
  s = std::fma(s, z, 1.0 / 362880);
  s = std::fma(s, z, -1.0 / 5040);
  s = std::fma(s, z, 1.0 / 120);
  s = std::fma(s, z, -1.0 / 6);
  s = std::fma(s * z, x, x);
  double c = 1.0 / 20922789888000;  // 16!
  c = std::fma(c, z, -1.0 / 87178291200);
  c = std::fma(c, z, 1.0 / 479001600);
  c = std::fma(c, z, -1.0 / 3628800);
  c = std::fma(c, z, 1.0 / 40320);
  c = std::fma(c, z, -1.0 / 720);
  c = std::fma(c, z, 1.0 / 24);
  c = std::fma(c, z, -0.5);
  c = std::fma(c, z, 1.0);
  // Quarters 1 and 3 exchange the two; bit 1 turns the sign of the sine, of the cosine one on.
  const std::uint64_t swap = std::uint64_t{0} - (quarter & 1);
  const std::uint64_t a = to_bits(s), b = to_bits(c);
  const std::uint64_t sin = (a & ~swap) | (b & swap), cos = (b & ~swap) | (a & swap);
  return {from_bits(sin ^ ((quarter & 2) << 62)), from_bits(cos ^ (((quarter + 1) & 2) << 62))};
}

struct NormalPair {
  double first, second;
};

// Uniforms u in (0, 1] and v in [0, 1) from 32 bits each.
GLMTUNE_HOST_DEVICE inline NormalPair box_muller(std::uint32_t u_bits, std::uint32_t v_bits) {
  const double u = (exact(u_bits) + 1.0) * 0x1p-32;
  const double angle = 6.283185307179586 * (exact(v_bits) * 0x1p-32);
  const double radius = sqrt(-2.0 * natural_log(u));
  const SinCos turn = sine_cosine(angle);
  return {radius * turn.cos, radius * turn.sin};
}

}  // namespace glmtune::ops
