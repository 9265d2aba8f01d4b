#pragma once
// Tensor maps (descriptors of the bulk tensor copy engine), made on the host. Pass them to kernels
// by value as `const __grid_constant__ CUtensorMap`.
#include <cuda.h>

#include <cstdint>
#include <initializer_list>

namespace glmtune {

enum class TensorMapType : std::uint8_t { kBF16, kF32 };
enum class TensorMapSwizzle : std::uint8_t { kNone, k128 };

// Sizes, strides and box run from the innermost dimension outwards, in elements; the innermost
// stride is 1 and left out (strides.size() == sizes.size() - 1). Reads outside give zeros, writes
// outside are dropped. With k128 the innermost box side is at most 128 bytes.
// base: 16-byte aligned; strides: multiples of 16 bytes (see tensor_map_possible).
CUtensorMap make_tensor_map(TensorMapType type, const void* base,
                            std::initializer_list<std::int64_t> sizes,
                            std::initializer_list<std::int64_t> strides,
                            std::initializer_list<int> box, TensorMapSwizzle swizzle);

// Whether the copy engine can address this tensor.
bool tensor_map_possible(const void* base, std::initializer_list<std::int64_t> strides_bytes);

}  // namespace glmtune
