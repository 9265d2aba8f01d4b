#pragma once
// Element types. Names follow safetensors: F64, F32, BF16, F16, F8_E4M3, I64, I32, U32, U16, U8,
// BOOL.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "tensor/bf16.h"

namespace glmtune {

enum class DType : std::uint8_t {
  kF64,
  kF32,
  kBF16,
  kF16,
  kF8E4M3,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool
};

constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
      return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kI16:
    case DType::kU16:
      return 2;
    default:
      return 1;
  }
}
// The safetensors spelling ("F32", "BF16", ...), and back; nullopt for a name that is not one.
std::string_view name_of(DType t);
std::optional<DType> dtype_from_name(std::string_view name);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::kU32;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::kU16;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kU8;
};

// "fp32" in the mathematics means at least fp32: float for float and bfloat16, double for double.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
constexpr DType wide(DType t) {
  return t == DType::kF64 ? DType::kF64 : DType::kF32;
}

// Calls f(T{}) with the storage type: double, float or BFloat16.
template <class F>
decltype(auto) dispatch_real(DType t, F&& f) {
  switch (t) {
    case DType::kF64:
      return f(double{});
    case DType::kF32:
      return f(float{});
    case DType::kBF16:
      return f(BFloat16{});
    default:
      fail("this op works on F64, F32 and BF16 only");
  }
}

}  // namespace glmtune
