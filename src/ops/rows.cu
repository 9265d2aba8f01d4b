#include "ops/kernel.cuh"
#include "ops/rows.h"

namespace glmtune::ops {
namespace {

constexpr int kThreads = 128;
constexpr int kCopyThreads = 192;  // times four packs: a BF16 row of 6144 in one step

// One block a row and stretch of columns; four packs a thread in flight.
template <class T, int V, class Source, class Target>
__device__ __forceinline__ void copy_row(Target* out, const Source* in, std::int64_t columns) {
  constexpr int kUnroll = 4;
  for (std::int64_t c = threadIdx.x * V; c < columns; c += kUnroll * kCopyThreads * V) {
    Pack<T, V> x[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (c + u * kCopyThreads * V < columns) x[u] = load<T, V>(in + c + u * kCopyThreads * V);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (c + u * kCopyThreads * V < columns) store<T, V>(out + c + u * kCopyThreads * V, x[u]);
  }
}

template <class T, int V>
__global__ void __launch_bounds__(kCopyThreads)
    gather_rows_kernel(Rows<T> y, Rows<const T> x, const std::int32_t* index, std::int32_t divide) {
  const std::int64_t r = blockIdx.x;
  copy_row<T, V>(y[r], x[index[r] / divide], y.columns);
}

template <class T, int V>
__global__ void __launch_bounds__(kCopyThreads)
    scatter_rows_kernel(Rows<T> y, Rows<const T> x, const std::int32_t* index) {
  const std::int64_t r = blockIdx.x;
  copy_row<T, V>(y[index[r]], x[r], x.columns);
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    combine_rows_kernel(Rows<T> y, Rows<const T> x, const std::int32_t* row_of_slot, int slots,
                        std::int64_t slot_stride, Rows<const T> base) {
  const std::int64_t t = blockIdx.x;
  const std::int32_t* rows = row_of_slot + t * slot_stride;
  T* out = y[t];
  const T* start = base.data != nullptr ? base[t] : nullptr;
  for (std::int64_t c = threadIdx.x * V; c < y.columns; c += kThreads * V) {
    float sum[V] = {};
    if (start != nullptr) unpack(load<T, V>(start + c), sum);
#pragma unroll 8
    for (int j = 0; j < slots; ++j) {
      float v[V];
      unpack(load<T, V>(x[rows[j]] + c), v);
#pragma unroll
      for (int i = 0; i < V; ++i) sum[i] += v[i];
    }
    store<T, V>(out + c, pack<T, V>(sum));
  }
}

// Types that only move: rows of any element of 2 or 4 bytes.
template <class F>
void dispatch_size(DType t, std::string_view op, F&& f) {
  switch (size_of(t)) {
    case 2:
      return f(TypeTag<std::uint16_t>{});
    case 4:
      return f(TypeTag<std::uint32_t>{});
    default:
      fail(cat(op, ": ", name_of(t), " on a CUDA device; elements of 2 or 4 bytes are expected"));
  }
}

}  // namespace

void run_cuda(Context& ctx, const GatherRows& op, Tensor) {
  if (op.y.count() == 0) return;
  dispatch_size(op.y.dtype, "GatherRows", [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = kPackOf<T>;
    const auto kernel =
        all_pack({op.y, op.x}, V) ? gather_rows_kernel<T, V> : gather_rows_kernel<T, 1>;
    kernel<<<static_cast<unsigned>(op.y.size(0)), kCopyThreads, 0, stream_of(ctx)>>>(
        Rows<T>(op.y), Rows<const T>(op.x), op.index.as<const std::int32_t>(),
        static_cast<std::int32_t>(op.divide));
    CHECK_LAUNCH();
  });
}

void run_cuda(Context& ctx, const ScatterRows& op, Tensor) {
  if (op.x.count() == 0) return;
  dispatch_size(op.x.dtype, "ScatterRows", [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = kPackOf<T>;
    const auto kernel =
        all_pack({op.y, op.x}, V) ? scatter_rows_kernel<T, V> : scatter_rows_kernel<T, 1>;
    kernel<<<static_cast<unsigned>(op.x.size(0)), kCopyThreads, 0, stream_of(ctx)>>>(
        Rows<T>(op.y), Rows<const T>(op.x), op.index.as<const std::int32_t>());
    CHECK_LAUNCH();
  });
}

void run_cuda(Context& ctx, const CombineRows& op, Tensor) {
  if (op.y.count() == 0) return;
  dispatch_gpu(op.y.dtype, "CombineRows", [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = kPackOf<T>;
    const auto kernel =
        all_pack({op.y, op.x, op.base}, V) ? combine_rows_kernel<T, V> : combine_rows_kernel<T, 1>;
    kernel<<<static_cast<unsigned>(op.y.size(0)), kThreads, 0, stream_of(ctx)>>>(
        Rows<T>(op.y), Rows<const T>(op.x), op.row_of_slot.as<const std::int32_t>(),
        static_cast<int>(op.row_of_slot.size(1)), op.row_of_slot.stride(0), Rows<const T>(op.base));
    CHECK_LAUNCH();
  });
}

}  // namespace glmtune::ops
