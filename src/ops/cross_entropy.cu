// One block a row: an online maximum and sum over the row, then (from L2, mostly) the gradient in
// place.
#include "ops/cross_entropy.h"
#include "ops/kernel.cuh"

namespace glmtune::ops {
namespace {

constexpr int kThreads = 1024;

// The fast exponential's 2^-22 is far below what 16-bit logits resolve; float32 gets the exact one.
template <class T>
__device__ __forceinline__ float exponential(float x) {
  return std::is_same_v<T, float> ? expf(x) : __expf(x);
}

// Adds the values v to the running Σ exp(x − max).
template <class T, int V>
__device__ __forceinline__ void accumulate(float& max, float& sum, const float (&v)[V]) {
  float top = v[0];
#pragma unroll
  for (int i = 1; i < V; ++i) top = fmaxf(top, v[i]);
  if (top > max) {
    sum *= exponential<T>(max - top);  // exp(−inf) = 0 at the start
    max = top;
  }
#pragma unroll
  for (int i = 0; i < V; ++i) sum += exponential<T>(v[i] - max);
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads, 2)
    cross_entropy_kernel(float* losses, Rows<T> dlogits, Rows<const T> logits,
                         const std::int32_t* labels, float grad_scale) {
  __shared__ float maxima[kThreads / 32], sums[kThreads / 32];
  const std::int64_t r = blockIdx.x;
  const T* row = logits[r];
  const std::int64_t columns = logits.columns;
  constexpr std::int64_t kStep = kThreads * V;
  float max = -INFINITY, sum = 0;
  std::int64_t c = threadIdx.x * V;
  for (; c + kStep < columns; c += 2 * kStep) {
    const Pack<T, V> p = load<T, V>(row + c), q = load<T, V>(row + c + kStep);
    float v[V], w[V];
    unpack(p, v);
    unpack(q, w);
    accumulate<T, V>(max, sum, v);
    accumulate<T, V>(max, sum, w);
  }
  if (c < columns) {
    float v[V];
    unpack(load<T, V>(row + c), v);
    accumulate<T, V>(max, sum, v);
  }
  const auto merge = [](float& m, float& s, float other_m, float other_s) {
    const float top = fmaxf(m, other_m);
    if (top == -INFINITY) return;
    s = s * exponential<T>(m - top) + other_s * exponential<T>(other_m - top);
    m = top;
  };
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    const float m = __shfl_xor_sync(0xffffffffu, max, o);
    const float s = __shfl_xor_sync(0xffffffffu, sum, o);
    merge(max, sum, m, s);
  }
  if (threadIdx.x % 32 == 0) {
    maxima[threadIdx.x / 32] = max;
    sums[threadIdx.x / 32] = sum;
  }
  const std::int32_t label = labels[r];
  const float label_logit = to_float(row[label]);  // read before the gradient overwrites it
  __syncthreads();
  max = maxima[0];
  sum = sums[0];
  for (int w = 1; w < kThreads / 32; ++w) merge(max, sum, maxima[w], sums[w]);
  if (threadIdx.x == 0) losses[r] = (max - label_logit) + logf(sum);
  if (dlogits.data == nullptr) return;
  const float lse = max + logf(sum);
  T* out = dlogits[r];
  for (c = threadIdx.x * V; c < columns; c += kStep) {
    float v[V];
    unpack(load<T, V>(row + c), v);
#pragma unroll
    for (int i = 0; i < V; ++i)
      v[i] = (exponential<T>(v[i] - lse) - (c + i == label ? 1.0f : 0.0f)) * grad_scale;
    store<T, V>(out + c, pack<T, V>(v));
  }
}

}  // namespace

void run_cuda(Context& ctx, const CrossEntropy& op, Tensor) {
  const auto rows = static_cast<unsigned>(op.logits.size(0));
  if (rows == 0) return;
  dispatch_gpu(op.logits.dtype, "CrossEntropy", [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = kPackOf<T>;
    const auto kernel = all_pack({op.logits, op.dlogits}, V) ? cross_entropy_kernel<T, V>
                                                             : cross_entropy_kernel<T, 1>;
    kernel<<<rows, kThreads, 0, stream_of(ctx)>>>(
        op.losses.as<float>(), Rows<T>(op.dlogits), Rows<const T>(op.logits),
        op.labels.as<const std::int32_t>(), static_cast<float>(op.grad_scale));
    CHECK_LAUNCH();
  });
}

}  // namespace glmtune::ops
