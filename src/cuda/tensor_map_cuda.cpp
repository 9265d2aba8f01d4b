#include <array>

#include "cuda/check.h"
#include "cuda/tensor_map.h"

namespace glmtune {
namespace {

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// Through the runtime, so that the program does not link the driver library and starts without it.
EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result{};
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess || entry == nullptr)
      fail_machine("the CUDA driver has no cuTensorMapEncodeTiled: a driver for CUDA 13 is needed");
    return reinterpret_cast<EncodeTiled>(entry);
  }();
  return function;
}

}  // namespace

CUtensorMap make_tensor_map(TensorMapType type, const void* base,
                            std::initializer_list<std::int64_t> sizes,
                            std::initializer_list<std::int64_t> strides,
                            std::initializer_list<int> box, TensorMapSwizzle swizzle) {
  const std::size_t rank = sizes.size();
  check(rank >= 1 && rank <= 5 && strides.size() + 1 == rank && box.size() == rank,
        "make_tensor_map: sizes, strides and box do not fit together");
  const std::int64_t element = type == TensorMapType::kBF16 ? 2 : 4;
  std::array<cuuint64_t, 5> size{}, stride{};
  std::array<cuuint32_t, 5> extent{}, step{1, 1, 1, 1, 1};
  for (std::size_t i = 0; i < rank; ++i) {
    size[i] = static_cast<cuuint64_t>(sizes.begin()[i]);
    extent[i] = static_cast<cuuint32_t>(box.begin()[i]);
    if (i + 1 < rank) stride[i] = static_cast<cuuint64_t>(strides.begin()[i] * element);
  }
  CUtensorMap map{};
  const CUresult status = encode_tiled()(
      &map,
      type == TensorMapType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                   : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
      static_cast<cuuint32_t>(rank), const_cast<void*>(base), size.data(), stride.data(),
      extent.data(), step.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzle == TensorMapSwizzle::k128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    fail_machine(cat("cuTensorMapEncodeTiled failed with code ", static_cast<int>(status),
                     " for a tensor of rank ", rank, ", innermost size ", size[0], ", box ",
                     extent[0]));
  return map;
}

bool tensor_map_possible(const void* base, std::initializer_list<std::int64_t> strides_bytes) {
  if (reinterpret_cast<std::uintptr_t>(base) % 16 != 0) return false;
  for (const std::int64_t s : strides_bytes)
    if (s % 16 != 0 || s <= 0) return false;
  return true;
}

}  // namespace glmtune
