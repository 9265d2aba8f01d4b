// A block rotates the heads of a few tokens; the angles of a token are computed once, in shared
// memory, for all of its heads.
#include "ops/kernel.cuh"
#include "ops/rope.h"

namespace glmtune::ops {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxPairs = 256;

// By value: the host computes them, for the very numbers the CPU version has.
struct Frequencies {
  float of[kMaxPairs];
};

// kPairs pairs a thread at a time: (x[2j], x[2j+1]) interleaved, or x[j] with x[j + D/2].
template <class T, int kPairs, bool kInterleaved>
__device__ __forceinline__ void rotate(T* head, int pair, int half, const float2* turn) {
  if constexpr (kInterleaved) {
    constexpr int V = kPairs == 1 ? 1 : 2 * kPairs;  // single pairs may lie at odd addresses
    float v[2 * kPairs];
#pragma unroll
    for (int i = 0; i < 2 * kPairs; i += V) {
      float part[V];
      unpack(load<T, V>(head + 2 * pair + i), part);
#pragma unroll
      for (int k = 0; k < V; ++k) v[i + k] = part[k];
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float a = v[2 * i], b = v[2 * i + 1];
      const float2 t = turn[pair + i];
      v[2 * i] = a * t.x - b * t.y;
      v[2 * i + 1] = b * t.x + a * t.y;
    }
#pragma unroll
    for (int i = 0; i < 2 * kPairs; i += V) {
      float part[V];
#pragma unroll
      for (int k = 0; k < V; ++k) part[k] = v[i + k];
      store<T, V>(head + 2 * pair + i, pack<T, V>(part));
    }
  } else {
    float a[kPairs], b[kPairs];
    unpack(load<T, kPairs>(head + pair), a);
    unpack(load<T, kPairs>(head + half + pair), b);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float2 t = turn[pair + i];
      const float first = a[i];
      a[i] = first * t.x - b[i] * t.y;
      b[i] = b[i] * t.x + first * t.y;
    }
    store<T, kPairs>(head + pair, pack<T, kPairs>(a));
    store<T, kPairs>(head + half + pair, pack<T, kPairs>(b));
  }
}

template <class T, int kPairs, bool kInterleaved>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(T* x, const std::int32_t* positions, std::int64_t tokens, int heads, int half,
                std::int64_t token_stride, std::int64_t head_stride, int tokens_per_block,
                const __grid_constant__ Frequencies frequencies, float sign) {
  extern __shared__ float2 turns[];  // [tokens_per_block, half]: cos, ± sin
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * tokens_per_block;
  const auto count =
      static_cast<int>(tokens - first < tokens_per_block ? tokens - first : tokens_per_block);
  for (int i = static_cast<int>(threadIdx.x); i < count * half; i += kThreads) {
    const int t = i / half, j = i - t * half;
    const float angle = static_cast<float>(positions[first + t]) * frequencies.of[j];
    float s, c;
    sincosf(angle, &s, &c);
    turns[i] = {c, sign * s};
  }
  __syncthreads();
  const int steps = half / kPairs;
  for (int i = static_cast<int>(threadIdx.x); i < count * heads * steps; i += kThreads) {
    const int t = i / (heads * steps), rest = i - t * heads * steps;
    const int h = rest / steps, pair = (rest - h * steps) * kPairs;
    rotate<T, kPairs, kInterleaved>(x + (first + t) * token_stride + h * head_stride, pair, half,
                                    turns + t * half);
  }
}

}  // namespace

void run_cuda(Context& ctx, const Rope& op, Tensor) {
  if (op.x.count() == 0) return;
  const std::int64_t tokens = op.x.size(0), heads = op.x.size(1), half = op.x.size(2) / 2;
  if (half > kMaxPairs)
    fail(cat("Rope: heads of ", 2 * half, " values on a CUDA device; at most ", 2 * kMaxPairs));
  const auto per_block = static_cast<int>(
      std::clamp<std::int64_t>(kThreads * 8 / std::max<std::int64_t>(heads * half, 1), 1, 16));
  const auto blocks = static_cast<unsigned>(ceil_div(tokens, per_block));
  const std::size_t shared = sizeof(float2) * static_cast<std::size_t>(per_block * half);
  Frequencies frequencies{};
  for (std::int64_t j = 0; j < half; ++j)
    frequencies.of[j] = rope_frequency<float>(op.theta, j, 2 * half);
  const bool interleaved = op.layout == RopeLayout::kInterleaved;
  dispatch_gpu(op.x.dtype, "Rope", [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = kPackOf<T>;
    const auto launch = [&](auto kernel) {
      kernel<<<blocks, kThreads, shared, stream_of(ctx)>>>(
          op.x.as<T>(), op.positions.as<const std::int32_t>(), tokens, static_cast<int>(heads),
          static_cast<int>(half), op.x.stride(0), op.x.stride(1), per_block, frequencies,
          op.inverse ? -1.0f : 1.0f);
    };
    const bool wide = packs(op.x, V) && half % V == 0;
    if (interleaved && wide)
      launch(rope_kernel<T, V / 2, true>);
    else if (interleaved)
      launch(rope_kernel<T, 1, true>);
    else if (wide)
      launch(rope_kernel<T, V, false>);
    else
      launch(rope_kernel<T, 1, false>);
    CHECK_LAUNCH();
  });
}

}  // namespace glmtune::ops
