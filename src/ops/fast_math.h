#pragma once
// Elementary functions that loops can be vectorised over.
#include <bit>
#include <cmath>
#include <cstdint>

namespace glmtune::ops {

// e^r for |r| ≤ ln 2 / 2 and a little more (Cephes' coefficients).
[[gnu::always_inline]] inline float exp_of_remainder(float r) {
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return (p * (r * r) + r) + 1.0f;
}

// e^x within 2 ulp of the exact value, subnormal results included; 0 and infinity beyond the
// range, NaN for NaN. x = n·ln 2 + r, |r| ≤ ln 2 / 2: a polynomial in r (Cephes' coefficients)
// times 2^n, applied as two factors so that every n of the range is reached.
inline float fast_exp(float x) {
  constexpr float kShift = 0x1.8p23f;  // adding it rounds to an integer, kept in the low bits
  const float clamped = x < -105.0f ? -105.0f : (x > 89.0f ? 89.0f : x);
  const float shifted = clamped * 0x1.715476p+0f + kShift;
  const float n = shifted - kShift;
  const std::int32_t i = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kShift);
  float r = clamped - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  const float y = exp_of_remainder(r);
  const std::int32_t half = i >> 1;
  return y * std::bit_cast<float>((half + 127) << 23) *
         std::bit_cast<float>((i - half + 127) << 23);
}
inline double fast_exp(double x) {
  return std::exp(x);
}

template <class W>
W sigmoid(W x) {
  return W(1) / (W(1) + fast_exp(-x));
}

}  // namespace glmtune::ops
