// Grouped products in plain fp32 arithmetic: 64 x 64 tiles, 4 x 4 results a thread. For F32, and
// for BF16 shapes the copy engine cannot address.
#include "ops/grouped.cuh"

namespace glmtune::ops {
namespace {

constexpr int kTile = 64;
constexpr int kDepth = 16;
constexpr int kThreads = 256;

struct TileSums {
  float of[4][4];
};

// sums += A[64 x depth] · B[depth x 64]; a(i, k) and b(k, j) give an element, 0 outside.
template <class A, class B>
__device__ __forceinline__ void multiply(TileSums& sums, std::int64_t depth, A&& a, B&& b) {
  __shared__ float as[kDepth][kTile + 1], bs[kDepth][kTile + 1];
  const int ty = static_cast<int>(threadIdx.x) / 16, tx = static_cast<int>(threadIdx.x) % 16;
  for (std::int64_t k0 = 0; k0 < depth; k0 += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
      as[i % kDepth][i / kDepth] = a(i / kDepth, k0 + i % kDepth);
      bs[i / kTile][i % kTile] = b(k0 + i / kTile, i % kTile);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums.of[i][j] += as[k][ty * 4 + i] * bs[k][tx + 16 * j];
    __syncthreads();
  }
}

// blockIdx.x counts row tiles over all experts, at most ceil(R / 64) + E of them.
template <class In, class Out>
__global__ void __launch_bounds__(kThreads)
    grouped_matmul_kernel(Out* out, std::int64_t ldo, const In* a, std::int64_t lda, const In* b,
                          std::int64_t stride_e, std::int64_t ldb, const std::int32_t* offsets,
                          int experts, std::int64_t N, std::int64_t K, bool trans_b) {
  std::int64_t tile = blockIdx.x, first = 0, end = 0;
  int e = 0;
  for (; e < experts; ++e) {
    first = offsets[e];
    end = offsets[e + 1];
    const std::int64_t tiles = ceil_div(end - first, kTile);
    if (tile < tiles) break;
    tile -= tiles;
  }
  if (e == experts) return;
  const std::int64_t r0 = first + tile * kTile;
  const std::int64_t n0 = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const In* w = b + e * stride_e;
  TileSums sums{};
  multiply(
      sums, K,
      [&](int i, std::int64_t k) {
        return r0 + i < end && k < K ? to_float(a[(r0 + i) * lda + k]) : 0.0f;
      },
      [&](std::int64_t k, int j) {
        if (k >= K || n0 + j >= N) return 0.0f;
        return to_float(trans_b ? w[(n0 + j) * ldb + k] : w[k * ldb + n0 + j]);
      });
  const int ty = static_cast<int>(threadIdx.x) / 16, tx = static_cast<int>(threadIdx.x) % 16;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const std::int64_t r = r0 + ty * 4 + i, n = n0 + tx + 16 * j;
      if (r < end && n < N) out[r * ldo + n] = from_float<Out>(sums.of[i][j]);
    }
}

template <class In, class Out>
__global__ void __launch_bounds__(kThreads)
    grouped_wgrad_kernel(Out* dw, std::int64_t stride_e, std::int64_t ldw, const In* dy,
                         std::int64_t ldy, const In* x, std::int64_t ldx,
                         const std::int32_t* offsets, std::int64_t N, std::int64_t K,
                         bool overwrite) {
  const int e = static_cast<int>(blockIdx.z);
  const std::int64_t first = offsets[e], rows = offsets[e + 1] - first;
  if (rows == 0) return;
  const std::int64_t n0 = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t k0 = static_cast<std::int64_t>(blockIdx.x) * kTile;
  TileSums sums{};
  multiply(
      sums, rows,
      [&](int i, std::int64_t r) {
        return r < rows && n0 + i < N ? to_float(dy[(first + r) * ldy + n0 + i]) : 0.0f;
      },
      [&](std::int64_t r, int j) {
        return r < rows && k0 + j < K ? to_float(x[(first + r) * ldx + k0 + j]) : 0.0f;
      });
  const int ty = static_cast<int>(threadIdx.x) / 16, tx = static_cast<int>(threadIdx.x) % 16;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const std::int64_t n = n0 + ty * 4 + i, k = k0 + tx + 16 * j;
      if (n >= N || k >= K) continue;
      Out& target = dw[e * stride_e + n * ldw + k];
      target = from_float<Out>(overwrite ? sums.of[i][j] : to_float(target) + sums.of[i][j]);
    }
}

// Blocks of expert blockIdx.y walk the rows of its gradient, V elements a store.
template <class Out, int V>
__global__ void __launch_bounds__(kThreads)
    clear_kernel(Out* dw, std::int64_t stride_e, std::int64_t ldw, const std::int32_t* offsets,
                 std::int64_t N, std::int64_t K) {
  const int e = static_cast<int>(blockIdx.y);
  if (offsets[e] != offsets[e + 1]) return;
  for (std::int64_t n = blockIdx.x; n < N; n += gridDim.x)
    for (std::int64_t k = std::int64_t{threadIdx.x} * V; k < K; k += kThreads * V)
      store<Out, V>(dw + e * stride_e + n * ldw + k, Pack<Out, V>{});
}

template <class F>
void dispatch_product(const Tensor& in, const Tensor& out, F&& f) {
  if (in.dtype == DType::kF32)
    f(TypeTag<float>{}, TypeTag<float>{});
  else if (out.dtype == DType::kF32)
    f(TypeTag<bf16>{}, TypeTag<float>{});
  else
    f(TypeTag<bf16>{}, TypeTag<bf16>{});
}

}  // namespace

void grouped_matmul_generic(Context& ctx, const GroupedMatmul& op) {
  const std::int64_t R = op.out.size(0), N = op.out.size(1), K = op.a.size(1);
  const std::int64_t experts = op.b.size(0);
  const dim3 grid(static_cast<unsigned>(ceil_div(R, kTile) + experts),
                  static_cast<unsigned>(ceil_div(N, kTile)));
  dispatch_product(op.a, op.out, [&](auto in, auto out) {
    using In = typename decltype(in)::type;
    using Out = typename decltype(out)::type;
    grouped_matmul_kernel<<<grid, kThreads, 0, stream_of(ctx)>>>(
        op.out.as<Out>(), op.out.stride(0), op.a.as<const In>(), op.a.stride(0),
        op.b.as<const In>(), op.b.stride(0), op.b.stride(1), op.offsets.as<const std::int32_t>(),
        static_cast<int>(experts), N, K, op.trans_b);
    CHECK_LAUNCH();
  });
}

void grouped_wgrad_generic(Context& ctx, const GroupedMatmulWgrad& op) {
  const std::int64_t experts = op.dw.size(0), N = op.dw.size(1), K = op.dw.size(2);
  const dim3 grid(static_cast<unsigned>(ceil_div(K, kTile)),
                  static_cast<unsigned>(ceil_div(N, kTile)), static_cast<unsigned>(experts));
  dispatch_product(op.dy, op.dw, [&](auto in, auto out) {
    using In = typename decltype(in)::type;
    using Out = typename decltype(out)::type;
    grouped_wgrad_kernel<<<grid, kThreads, 0, stream_of(ctx)>>>(
        op.dw.as<Out>(), op.dw.stride(0), op.dw.stride(1), op.dy.as<const In>(), op.dy.stride(0),
        op.x.as<const In>(), op.x.stride(0), op.offsets.as<const std::int32_t>(), N, K,
        op.overwrite);
    CHECK_LAUNCH();
  });
}

void clear_experts_without_rows(Context& ctx, const GroupedMatmulWgrad& op) {
  const std::int64_t N = op.dw.size(1), K = op.dw.size(2);
  const dim3 grid(static_cast<unsigned>(std::min<std::int64_t>(N, 64)),
                  static_cast<unsigned>(op.dw.size(0)));
  dispatch_gpu(op.dw.dtype, "GroupedMatmulWgrad", [&](auto tag) {
    using Out = typename decltype(tag)::type;
    constexpr int V = kPackOf<Out>;
    const auto kernel = packs(op.dw, V) ? clear_kernel<Out, V> : clear_kernel<Out, 1>;
    kernel<<<grid, kThreads, 0, stream_of(ctx)>>>(op.dw.as<Out>(), op.dw.stride(0), op.dw.stride(1),
                                                  op.offsets.as<const std::int32_t>(), N, K);
    CHECK_LAUNCH();
  });
}

}  // namespace glmtune::ops
