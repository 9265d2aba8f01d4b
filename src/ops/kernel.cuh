#pragma once
// What the kernels of the ops share: typed 16-byte packs, strided rows, deterministic reductions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/cat.h"
#include "cuda/check.h"
#include "cuda/context.h"
#include "tensor/context.h"

namespace glmtune::ops {

using bf16 = __nv_bfloat16;

inline cudaStream_t stream_of(const Context& ctx) {
  return static_cast<cudaStream_t>(ctx.stream);
}
inline CudaContext& cuda_of(const Context& ctx, std::string_view op) {
  if (ctx.cuda == nullptr) fail(cat(op, ": the context has no CudaContext (make_cuda_context)"));
  return *ctx.cuda;
}
// After every launch.
inline void check_launch(const char* file, int line) {
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess)
    fail_machine(cat(file, ":", line, ": kernel launch: ", cudaGetErrorString(status)));
}
#define CHECK_LAUNCH() ::glmtune::ops::check_launch(__FILE__, __LINE__)

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<float>) or f(TypeTag<bf16>); F64 exists on the CPU only.
template <class F>
void dispatch_gpu(DType t, std::string_view op, F&& f) {
  if (t == DType::kF32)
    f(TypeTag<float>{});
  else if (t == DType::kBF16)
    f(TypeTag<bf16>{});
  else
    fail(cat(op, ": ", name_of(t),
             " on a CUDA device; the kernels are for F32 and BF16 (use --device cpu for F64)"));
}

__host__ __device__ constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

template <class T>
__device__ __forceinline__ float to_float(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return __bfloat162float(x);
  else if constexpr (std::is_same_v<T, __half>)
    return __half2float(x);
  else
    return static_cast<float>(x);
}
template <class T>
__device__ __forceinline__ T from_float(float x) {
  if constexpr (std::is_same_v<T, bf16>)
    return __float2bfloat16_rn(x);
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(x);
  else
    return static_cast<T>(x);
}

// V consecutive elements, moved with accesses as wide as their size allows (16 bytes at most).
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T v[V];
};
template <class T>
inline constexpr int kPackOf = 16 / static_cast<int>(sizeof(T));

template <class T, int V>
__device__ __forceinline__ Pack<T, V> load(const T* p) {
  return *reinterpret_cast<const Pack<T, V>*>(p);
}
template <class T, int V>
__device__ __forceinline__ void store(T* p, const Pack<T, V>& x) {
  *reinterpret_cast<Pack<T, V>*>(p) = x;
}
template <class T, int V>
__device__ __forceinline__ void unpack(const Pack<T, V>& x, float (&out)[V]) {
#pragma unroll
  for (int i = 0; i < V; ++i) out[i] = to_float(x.v[i]);
}
template <class T, int V>
__device__ __forceinline__ Pack<T, V> pack(const float (&x)[V]) {
  Pack<T, V> r;
#pragma unroll
  for (int i = 0; i < V; ++i) r.v[i] = from_float<T>(x[i]);
  return r;
}

// Any tensor as rows of its innermost dimension; row r of the outer dimensions in row-major order.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t rows = 1, columns = 1;
  std::int64_t n1 = 1, n2 = 1;  // sizes of the inner two of up to three outer dimensions
  std::int64_t s0 = 0, s1 = 0, s2 = 0;

  Rows() = default;
  explicit Rows(const Tensor& t) : data(static_cast<T*>(t.data)) {
    if (!t.defined()) return;
    std::int64_t n[3] = {1, 1, 1}, s[3] = {0, 0, 0};
    int k = 3;
    for (int d = t.rank - 2; d >= 0; --d) {
      if (t.size(d) == 1) continue;
      // Merges a dimension that continues the one inside it.
      if (k < 3 && t.stride(d) == n[k] * s[k]) {
        n[k] *= t.size(d);
        continue;
      }
      --k;
      n[k] = t.size(d);
      s[k] = t.stride(d);
    }
    columns = t.size(-1);
    if (k == 3) k = 2;
    // One outer dimension left: it becomes s0.
    for (int i = 0; k + i < 3; ++i) {
      if (i == 0) s0 = s[k];
      if (i == 1) n1 = n[k + 1], s1 = s[k + 1];
      if (i == 2) n2 = n[k + 2], s2 = s[k + 2];
    }
    rows = n[0] * n[1] * n[2];
  }
  __device__ __forceinline__ T* operator[](std::int64_t r) const {
    if (n1 == 1 && n2 == 1) return data + r * s0;
    const std::int64_t inner = n1 * n2, i = r / inner, rest = r - i * inner;
    const std::int64_t j = rest / n2, k = rest - j * n2;
    return data + i * s0 + j * s1 + k * s2;
  }
};

// Rows one stride apart: what most kernels need, without Rows' index arithmetic.
template <class T>
struct EvenRows {
  T* data = nullptr;
  std::int64_t stride = 0;
  EvenRows() = default;
  explicit EvenRows(const Rows<T>& r) : data(r.data), stride(r.s0) {}
  __device__ __forceinline__ T* operator[](std::int64_t r) const { return data + r * stride; }
};
inline bool rows_are_even(std::initializer_list<Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& t) {
    const Rows<char> r(t);
    return r.n1 == 1 && r.n2 == 1;
  });
}

// Whether every row of `t` can be read in packs of `v` elements.
inline bool packs(const Tensor& t, int v) {
  if (!t.defined()) return true;
  const auto width = std::min<std::int64_t>(16, v * static_cast<std::int64_t>(size_of(t.dtype)));
  if (reinterpret_cast<std::uintptr_t>(t.data) % static_cast<std::uintptr_t>(width) != 0)
    return false;
  if (t.size(-1) % v != 0) return false;
  for (int d = 0; d + 1 < t.rank; ++d)
    if (t.size(d) != 1 && t.stride(d) * static_cast<std::int64_t>(size_of(t.dtype)) % width != 0)
      return false;
  return true;
}
inline bool all_pack(std::initializer_list<Tensor> tensors, int v) {
  return std::all_of(tensors.begin(), tensors.end(), [v](const Tensor& t) { return packs(t, v); });
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}
__device__ __forceinline__ double warp_sum(double x) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}

// Sum over the block in a fixed order, in every thread. `shared`: one value a warp; the same array
// may be used again at once.
template <int kThreads, class T>
__device__ __forceinline__ T block_sum(T x, T* shared) {
  constexpr int kWarps = kThreads / 32;
  x = warp_sum(x);
  if constexpr (kWarps == 1) return x;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  T sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += shared[w];
  return sum;
}

}  // namespace glmtune::ops
