#include "ops/kernel.cuh"
#include "ops/swiglu.h"

namespace glmtune::ops {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(Rows<T> y, Rows<const T> gate, Rows<const T> up, const float* row_scale) {
  const std::int64_t r = blockIdx.x;
  const float scale = row_scale != nullptr ? row_scale[r] : 1.0f;
  const T *gate_row = gate[r], *up_row = up[r];
  T* out = y[r];
  for (std::int64_t c = threadIdx.x * V; c < y.columns; c += kThreads * V) {
    float g[V], u[V];
    unpack(load<T, V>(gate_row + c), g);
    unpack(load<T, V>(up_row + c), u);
#pragma unroll
    for (int k = 0; k < V; ++k) g[k] = g[k] * sigmoid(g[k]) * u[k] * scale;
    store<T, V>(out + c, pack<T, V>(g));
  }
}

// One block a row: the row's sum for drow_scale needs no second pass.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(Rows<T> dgate, Rows<T> dup, float* drow_scale, Rows<T> y,
                           Rows<const T> dy, Rows<const T> gate, Rows<const T> up,
                           const float* row_scale) {
  __shared__ float shared[kThreads / 32];
  const std::int64_t r = blockIdx.x;
  const float scale = row_scale != nullptr ? row_scale[r] : 1.0f;
  const T *gate_row = gate[r], *up_row = up[r], *dy_row = dy[r];
  T *dgate_row = dgate[r], *dup_row = dup[r], *y_row = y.data != nullptr ? y[r] : nullptr;
  float sum = 0;
  for (std::int64_t c = threadIdx.x * V; c < dgate.columns; c += kThreads * V) {
    float g[V], u[V], d[V], m[V];
    unpack(load<T, V>(gate_row + c), g);
    unpack(load<T, V>(up_row + c), u);
    unpack(load<T, V>(dy_row + c), d);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float s = sigmoid(g[k]), silu = g[k] * s, product = silu * u[k];
      sum += d[k] * product;
      m[k] = product * scale;
      const float ds = d[k] * scale;
      g[k] = ds * u[k] * s * (1.0f + g[k] * (1.0f - s));
      u[k] = ds * silu;
    }
    store<T, V>(dgate_row + c, pack<T, V>(g));
    store<T, V>(dup_row + c, pack<T, V>(u));
    if (y_row != nullptr) store<T, V>(y_row + c, pack<T, V>(m));
  }
  if (drow_scale == nullptr) return;
  sum = block_sum<kThreads>(sum, shared);
  if (threadIdx.x == 0) drow_scale[r] = sum;
}

}  // namespace

void run_cuda(Context& ctx, const Swiglu& op, Tensor) {
  if (op.y.count() == 0) return;
  dispatch_gpu(op.y.dtype, "Swiglu", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* scale = op.row_scale.defined() ? op.row_scale.as<const float>() : nullptr;
    const Rows<T> y(op.y);
    const auto launch = [&](auto kernel) {
      kernel<<<static_cast<unsigned>(y.rows), kThreads, 0, stream_of(ctx)>>>(
          y, Rows<const T>(op.gate), Rows<const T>(op.up), scale);
    };
    constexpr int V = kPackOf<T>;
    if (all_pack({op.y, op.gate, op.up}, V))
      launch(swiglu_kernel<T, V>);
    else
      launch(swiglu_kernel<T, 1>);
    CHECK_LAUNCH();
  });
}

void run_cuda(Context& ctx, const SwigluBackward& op, Tensor) {
  if (op.dgate.count() == 0) return;
  dispatch_gpu(op.dgate.dtype, "SwigluBackward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* scale = op.row_scale.defined() ? op.row_scale.as<const float>() : nullptr;
    auto* dscale = op.drow_scale.defined() ? op.drow_scale.as<float>() : nullptr;
    const Rows<T> dgate(op.dgate);
    const auto launch = [&](auto kernel) {
      kernel<<<static_cast<unsigned>(dgate.rows), kThreads, 0, stream_of(ctx)>>>(
          dgate, Rows<T>(op.dup), dscale, Rows<T>(op.y), Rows<const T>(op.dy),
          Rows<const T>(op.gate), Rows<const T>(op.up), scale);
    };
    constexpr int V = kPackOf<T>;
    if (all_pack({op.dgate, op.dup, op.y, op.dy, op.gate, op.up}, V))
      launch(swiglu_backward_kernel<T, V>);
    else
      launch(swiglu_backward_kernel<T, 1>);
    CHECK_LAUNCH();
  });
}

}  // namespace glmtune::ops
