#include "tensor/dtype.h"

#include <array>
#include <utility>

namespace glmtune {
namespace {
constexpr std::array<std::pair<DType, std::string_view>, 14> kNames{{{DType::kF64, "F64"},
                                                                     {DType::kF32, "F32"},
                                                                     {DType::kBF16, "BF16"},
                                                                     {DType::kF16, "F16"},
                                                                     {DType::kF8E4M3, "F8_E4M3"},
                                                                     {DType::kI64, "I64"},
                                                                     {DType::kI32, "I32"},
                                                                     {DType::kI16, "I16"},
                                                                     {DType::kI8, "I8"},
                                                                     {DType::kU64, "U64"},
                                                                     {DType::kU32, "U32"},
                                                                     {DType::kU16, "U16"},
                                                                     {DType::kU8, "U8"},
                                                                     {DType::kBool, "BOOL"}}};
}  // namespace

std::string_view name_of(DType t) {
  for (const auto& [type, name] : kNames)
    if (type == t) return name;
  return "?";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const auto& [type, spelling] : kNames)
    if (spelling == name) return type;
  return std::nullopt;
}

}  // namespace glmtune
