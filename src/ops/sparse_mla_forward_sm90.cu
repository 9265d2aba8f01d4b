// Attention over gathered latent rows on sm_90a, BF16, 64 heads, sizes 512 + 64.
//
// A block works on one query at a time, its 64 heads being the rows of every product, in steps of
// 64 keys. One warpgroup gathers keys into two stages; the two others each compute all scores
// (twice the work on 576 of 1,664 columns, but nothing to exchange) and half of the 512 output
// columns.
#include "cuda/check.h"
#include "cuda/tensor_map.h"
#include "ops/attention_cuda.cuh"
#include "ops/sparse_mla_sm90.cuh"

namespace glmtune::ops::sm90 {
namespace {

constexpr int kHeads = 64, kKeys = kGatherKeys, kStages = 2;
constexpr int kThreads = 384;
constexpr int kQueryPanel = kHeads * 128, kQueryBytes = 9 * kQueryPanel;
constexpr int kBarrierOffset = kQueryBytes + kStages * kGatherBytes;
constexpr int kSharedBytes = kBarrierOffset + 256 + 1024;

struct Barriers {
  std::uint64_t q_full, q_empty, k_full[kStages], k_empty[kStages];
};

struct Arguments {
  SparseKeys keys;
  int queries;
  __nv_bfloat16* out;
  std::int64_t out_row, out_head, lse_row;
  float* lse;
  float scale, scale_log2;
};

__device__ __forceinline__ void produce(const Arguments& a, const CUtensorMap& q_latent,
                                        const CUtensorMap& q_rope, char* smem, Barriers& bar) {
  Ring<kStages> ring;
  unsigned phase = 0;
  for (int t = blockIdx.x; t < a.queries; t += gridDim.x) {
    const int count = a.keys.counts[t];
    if (threadIdx.x == 0) {
      mbarrier_wait(&bar.q_empty, phase ^ 1);
      mbarrier_arrive_expect(&bar.q_full, kQueryBytes);
      for (int c = 0; c < 8; ++c)
        tma_load_3d(smem + c * kQueryPanel, &q_latent, &bar.q_full, c * 64, 0, t, kEvictFirst);
      tma_load_3d(smem + 8 * kQueryPanel, &q_rope, &bar.q_full, 0, 0, t, kEvictFirst);
    }
    phase ^= 1;
    for (int first = 0; first < count; first += kKeys) {
      mbarrier_wait(&bar.k_empty[ring.stage], ring.phase ^ 1);
      gather_keys(a.keys, t, first, count, smem + kQueryBytes + ring.stage * kGatherBytes);
      mbarrier_arrive(&bar.k_full[ring.stage]);
      ring.next();
    }
  }
}

__device__ __forceinline__ void consume(const Arguments& a, char* smem, Barriers& bar, int group) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32, c = 2 * (lane % 4);
  const int head = warp * 16 + lane / 4;
  Ring<kStages> ring;
  unsigned phase = 0;
  float o[128];
  float s[kKeys / 2];
  std::uint32_t p[kKeys / 16][4];
  for (int t = blockIdx.x; t < a.queries; t += gridDim.x) {
    const int count = a.keys.counts[t];
    Softmax m = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    float shrink[2];
#pragma unroll
    for (float& x : o) x = 0;
    mbarrier_wait(&bar.q_full, phase);
    phase ^= 1;
    for (int first = 0; first < count; first += kKeys) {
      const char* k = smem + kQueryBytes + ring.stage * kGatherBytes;
      mbarrier_wait(&bar.k_full[ring.stage], ring.phase);
      multiply_rows_now<kKeys, 9>(s, smem, kQueryPanel, k, kGatherPanel);
      if (first + kKeys > count) {
#pragma unroll
        for (int x = 0; x < kKeys / 2; ++x)
          if (first + x / 4 * 8 + c + x % 2 >= count) s[x] = -INFINITY;
      }
      weigh<kKeys>(s, m, shrink, a.scale_log2);
      rescale(o, shrink);
      pack_weights<kKeys>(p, s);
      add_weighted(o, p, k + group * 4 * kGatherPanel, kGatherPanel);
      release(&bar.k_empty[ring.stage]);
      ring.next();
    }
    release(&bar.q_empty);
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = whole_sum(m, half);
      inverse[half] = sum > 0 ? 1.0f / sum : 0.0f;
      if (group == 0 && lane % 4 == 0)
        a.lse[(head + 8 * half) * a.lse_row + t] =
            sum > 0 ? m.top[half] * a.scale + logf(sum) : -INFINITY;
    }
    __nv_bfloat16* out = a.out + t * a.out_row + head * a.out_head + group * 256;
    store_rows<8>(o, inverse[0], inverse[1], out, out + 8 * a.out_head);
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    sparse_forward_kernel(const __grid_constant__ CUtensorMap q_latent,
                          const __grid_constant__ CUtensorMap q_rope, const Arguments a) {
  extern __shared__ char raw[];
  char* smem = tiles_of(raw);
  Barriers& bar = *reinterpret_cast<Barriers*>(smem + kBarrierOffset);
  if (threadIdx.x == 0) {
    mbarrier_init(&bar.q_full, 1);
    mbarrier_init(&bar.q_empty, 8);
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(&bar.k_full[i], 128);
      mbarrier_init(&bar.k_empty[i], 8);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  share_out<72, 216>([&] { produce(a, q_latent, q_rope, smem, bar); },
                     [&](int group) { consume(a, smem, bar, group); });
}

}  // namespace

void forward(cudaStream_t stream, const SparseMla& op) {
  const auto queries = static_cast<int>(op.q_latent.size(0));
  if (queries == 0) return;
  const Arguments a{.keys = keys_of(op),
                    .queries = queries,
                    .out = op.out_latent.as<__nv_bfloat16>(),
                    .out_row = op.out_latent.stride(0),
                    .out_head = op.out_latent.stride(1),
                    .lse_row = op.lse.stride(0),
                    .lse = op.lse.as<float>(),
                    .scale = static_cast<float>(op.scale),
                    .scale_log2 = static_cast<float>(op.scale * 1.4426950408889634)};
  CUDA_CHECK(cudaFuncSetAttribute(sparse_forward_kernel,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  sparse_forward_kernel<<<static_cast<unsigned>(std::min(multiprocessors(), queries)), kThreads,
                          kSharedBytes, stream>>>(token_map(op.q_latent), token_map(op.q_rope), a);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace glmtune::ops::sm90
