#include "io/convert.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::io {
namespace {

struct Half {
  std::uint16_t bits;
};
struct E4M3 {
  std::uint8_t bits;
};

std::array<float, 256> e4m3_table() {
  std::array<float, 256> table{};
  for (unsigned i = 0; i < 256; ++i) table[i] = float_from_f8_e4m3(static_cast<std::uint8_t>(i));
  return table;
}

// double for the widest type, float for all others: each source value is exact in it.
double widen(double x) {
  return x;
}
float widen(float x) {
  return x;
}
float widen(BFloat16 x) {
  return static_cast<float>(x);
}
float widen(Half x) {
  return float_from_f16(x.bits);
}
float widen(E4M3 x) {
  static const std::array<float, 256> kTable = e4m3_table();
  return kTable[x.bits];
}

void narrow(double& out, double x) {
  out = x;
}
void narrow(float& out, double x) {
  out = static_cast<float>(x);
}
void narrow(BFloat16& out, float x) {
  out = BFloat16(x);
}
void narrow(BFloat16& out, double x) {
  out = BFloat16(x);
}
void narrow(Half& out, float x) {
  out.bits = f16_from_float(x);
  if ((out.bits & 0x7FFFU) == 0x7C00U && std::isfinite(x)) {
    fail(cat("the value ", x, " is beyond the range of F16; store float32 or bfloat16"));
  }
}
void narrow(Half& out, double x) {
  narrow(out, static_cast<float>(x));
}

// Files do not align tensors, so elements go through memcpy; compilers turn it into plain loads.
template <class To, class From>
void loop(const void* src, void* dst, std::int64_t n) {
  const auto* in = static_cast<const char*>(src);
  auto* out = static_cast<char*>(dst);
  for (std::int64_t i = 0; i < n; ++i) {
    From x;
    std::memcpy(&x, in + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
    To y;
    narrow(y, widen(x));
    std::memcpy(out + i * static_cast<std::int64_t>(sizeof(To)), &y, sizeof(To));
  }
}

template <class From>
void loop_to(const void* src, void* dst, DType to, std::int64_t n) {
  switch (to) {
    case DType::kF64:
      return loop<double, From>(src, dst, n);
    case DType::kF32:
      return loop<float, From>(src, dst, n);
    case DType::kBF16:
      return loop<BFloat16, From>(src, dst, n);
    default:
      return loop<Half, From>(src, dst, n);
  }
}

template <class To, class From>
void integers(const void* src, void* dst, std::int64_t n) {
  const auto* in = static_cast<const char*>(src);
  auto* out = static_cast<char*>(dst);
  for (std::int64_t i = 0; i < n; ++i) {
    From x;
    std::memcpy(&x, in + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
    const To y = static_cast<To>(x);
    if (static_cast<From>(y) != x) fail(cat("the value ", x, " is beyond the range of I32"));
    std::memcpy(out + i * static_cast<std::int64_t>(sizeof(To)), &y, sizeof(To));
  }
}

bool is_real(DType t) {
  return t == DType::kF64 || t == DType::kF32 || t == DType::kBF16 || t == DType::kF16;
}

}  // namespace

float float_from_f8_e4m3(std::uint8_t bits) {
  const int exponent = (bits >> 3U) & 0xF;
  const int mantissa = bits & 0x7;
  float x = 0;
  if (exponent == 15 && mantissa == 7) {
    x = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    x = std::ldexp(static_cast<float>(mantissa), -9);
  } else {
    x = std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  }
  return (bits & 0x80U) != 0 ? -x : x;
}

float float_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {
    const float x = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -x : x;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23U | mantissa << 13U);
}

std::uint16_t f16_from_float(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((u >> 16U) & 0x8000U);
  const std::uint32_t magnitude = u & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {  // subnormal in F16: multiples of 2^-24
    const float scaled = std::ldexp(std::bit_cast<float>(magnitude), 24);
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyint(scaled)));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | (rounded - (112U << 23U)) >> 13U);
}

bool convertible(DType from, DType to) {
  if (from == to) return true;
  if (is_real(to)) return is_real(from) || from == DType::kF8E4M3;
  return (from == DType::kI64 && to == DType::kI32) || (from == DType::kI32 && to == DType::kI64);
}

void convert_elements(const void* src, DType from, void* dst, DType to, std::int64_t n) {
  if (from == to) {
    std::memcpy(dst, src, static_cast<std::size_t>(n) * size_of(from));
    return;
  }
  if (!convertible(from, to)) fail(cat("cannot convert ", name_of(from), " to ", name_of(to)));
  switch (from) {
    case DType::kF64:
      return loop_to<double>(src, dst, to, n);
    case DType::kF32:
      return loop_to<float>(src, dst, to, n);
    case DType::kBF16:
      return loop_to<BFloat16>(src, dst, to, n);
    case DType::kF16:
      return loop_to<Half>(src, dst, to, n);
    case DType::kF8E4M3:
      return loop_to<E4M3>(src, dst, to, n);
    case DType::kI32:
      return integers<std::int64_t, std::int32_t>(src, dst, n);
    default:
      return integers<std::int32_t, std::int64_t>(src, dst, n);
  }
}

}  // namespace glmtune::io
