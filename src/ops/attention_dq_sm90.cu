// Gradient of the queries of dense causal attention on sm_90a, BF16, head sizes 192 + 64 / 256.
//
// A block holds 128 query rows of one head, Q and dO, and walks the keys from the diagonal down in
// steps of 64; two warpgroups of 64 rows each make S = Q·Kᵀ, dP = dO·Vᵀ, dS and dQ += dS·K. Keys
// have two stages, values one: a value tile is free again before the step's exponentials.
#include "cuda/check.h"
#include "ops/attention_backward_sm90.cuh"
#include "ops/attention_cuda.cuh"

namespace glmtune::ops::sm90 {
namespace {

constexpr int kRows = 128, kKeys = 64, kStages = 2;
constexpr int kThreads = 384;
constexpr int kQueryPanel = kRows * 128, kKeyPanel = kKeys * 128;
constexpr int kQueryBytes = 4 * kQueryPanel, kKeyBytes = 4 * kKeyPanel;
constexpr int kGradientOffset = kQueryBytes, kKeyOffset = 2 * kQueryBytes,
              kValueOffset = kKeyOffset + kStages * kKeyBytes,
              kBarrierOffset = kValueOffset + kKeyBytes, kSharedBytes = kBarrierOffset + 256 + 1024;

struct Barriers {
  std::uint64_t q_full, q_empty, g_full, g_empty, v_full, v_empty;
  std::uint64_t k_full[kStages], k_empty[kStages];
  ItemQueue queue;
};

__device__ __forceinline__ void produce(const BackwardArguments& a, const BackwardMaps& maps,
                                        char* smem, Barriers& bar) {
  Ring<kStages> ring;
  Ring<2> queue;
  unsigned phase = 0, v_phase = 0;
  for (int i = blockIdx.x, next = 0; i < a.items; i = next) {
    const Item item = query_item<kRows, kKeys>(a.spans, a.heads, i);
    next = static_cast<int>(gridDim.x) + atomicAdd(a.counter, 1);
    bar.queue.push(queue, item);
    const int query = item.begin + item.row;
    mbarrier_wait(&bar.q_empty, phase ^ 1);
    mbarrier_arrive_expect(&bar.q_full, kQueryBytes);
    load_head(smem, kQueryPanel, maps.q, &bar.q_full, item.head, query);
    for (int n = item.steps - 1; n >= 0; --n) {
      const int key = item.begin + n * kKeys;
      mbarrier_wait(&bar.k_empty[ring.stage], ring.phase ^ 1);
      mbarrier_arrive_expect(&bar.k_full[ring.stage], kKeyBytes);
      load_keys(smem + kKeyOffset + ring.stage * kKeyBytes, kKeyPanel, maps,
                &bar.k_full[ring.stage], item.head, key);
      ring.next();
      if (n == item.steps - 1) {
        mbarrier_wait(&bar.g_empty, phase ^ 1);
        mbarrier_arrive_expect(&bar.g_full, kQueryBytes);
        load_head(smem + kGradientOffset, kQueryPanel, maps.dout, &bar.g_full, item.head, query);
      }
      mbarrier_wait(&bar.v_empty, v_phase ^ 1);
      mbarrier_arrive_expect(&bar.v_full, kKeyBytes);
      load_head(smem + kValueOffset, kKeyPanel, maps.v, &bar.v_full, item.head, key);
      v_phase ^= 1;
    }
    phase ^= 1;
  }
  bar.queue.push(queue, no_item());
}

template <bool kMask>
__device__ __forceinline__ void consume(const BackwardArguments& a, char* smem, Barriers& bar,
                                        int group) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int c = 2 * (lane % 4);
  const char* q = smem + group * 64 * 128;
  const char* g = q + kGradientOffset;
  Ring<kStages> ring;
  Ring<2> queue;
  unsigned phase = 0, v_phase = 0;
  float dq[128];
  float s[32], dp[32];
  std::uint32_t p[4][4];
  for (Item item = bar.queue.pop(queue); item.head >= 0; item = bar.queue.pop(queue)) {
    const int length = item.length;
    const int group_row = item.row + group * 64;
    const int row = group_row + warp * 16 + lane / 4;
    float lse[2], delta[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Padding goes to whole key tiles only: the second warpgroup may lie behind it.
      const int r = row + 8 * half;
      const std::int64_t at = item.head * a.padded_rows + item.padded + r;
      lse[half] = r < length ? a.lse[at] : INFINITY;
      delta[half] = r < length ? a.delta[at] : 0.0f;
    }
#pragma unroll
    for (float& x : dq) x = 0;
    mbarrier_wait(&bar.q_full, phase);
    mbarrier_wait(&bar.g_full, phase);
    phase ^= 1;
    int n = item.steps - 1;
    if (n * kKeys > group_row + 63) {  // the first warpgroup's rows end a step earlier
      mbarrier_wait(&bar.k_full[ring.stage], ring.phase);
      release(&bar.k_empty[ring.stage]);
      ring.next();
      mbarrier_wait(&bar.v_full, v_phase);
      release(&bar.v_empty);
      v_phase ^= 1;
      --n;
    }
    for (; n >= 0; --n) {
      const char* k = smem + kKeyOffset + ring.stage * kKeyBytes;
      mbarrier_wait(&bar.k_full[ring.stage], ring.phase);
      if (const int tail = length - n * kKeys; tail < kKeys)
        zero_tail(smem + kKeyOffset + ring.stage * kKeyBytes, kKeyPanel, tail, kKeys, 1 + group);
      wgmma_pin(s);
      wgmma_pin(dp);
      wgmma_fence();
      multiply_rows<64>(s, q, kQueryPanel, k, kKeyPanel);
      wgmma_commit();
      mbarrier_wait(&bar.v_full, v_phase);
      v_phase ^= 1;
      multiply_rows<64>(dp, g, kQueryPanel, smem + kValueOffset, kKeyPanel);
      wgmma_commit();
      std::uint32_t bits[2][2] = {};
      if constexpr (kMask) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int w = 0; w < 2; ++w)
            if (row + 8 * half < length && 2 * n + w < a.mask_words)
              bits[half][w] =
                  __ldg(a.mask + (item.begin + row + 8 * half) * a.mask_row + 2 * n + w) >> c;
      }
      wgmma_wait<1>();
      wgmma_pin(s);
      const bool diagonal = n * kKeys + kKeys - 1 > group_row;
#pragma unroll
      for (int x = 0; x < 32; ++x) s[x] = exp2_fast(fmaf(s[x], a.scale_log2, -lse[x / 2 % 2]));
      if (kMask || diagonal) {
#pragma unroll
        for (int x = 0; x < 32; ++x) {
          const int half = x / 2 % 2, j = x / 4;
          bool seen = n * kKeys + 8 * j + c + x % 2 <= row + 8 * half;
          if constexpr (kMask)
            seen = seen && ((bits[half][j / 4] >> (8 * (j % 4) + x % 2)) & 1u) != 0;
          if (!seen) s[x] = 0;
        }
      }
      wgmma_wait<0>();
      wgmma_pin(dp);
      release(&bar.v_empty);
      if (n == 0) {
        release(&bar.q_empty);
        release(&bar.g_empty);
      }
#pragma unroll
      for (int x = 0; x < 32; ++x) s[x] = s[x] == 0 ? 0.0f : s[x] * (dp[x] - delta[x / 2 % 2]);
      pack_weights<64>(p, s);
      add_weighted(dq, p, k, kKeyPanel);
      release(&bar.k_empty[ring.stage]);
      ring.next();
    }
    __nv_bfloat16* out = a.dq + (item.begin + row) * a.dq_row + item.head * a.dq_head;
    store_rows<8>(dq, a.scale, a.scale, row < length ? out : nullptr,
                  row + 8 < length ? out + 8 * a.dq_row : nullptr);
  }
}

template <bool kMask>
__global__ void __launch_bounds__(kThreads, 1)
    dq_kernel(const __grid_constant__ BackwardMaps maps, const BackwardArguments a) {
  extern __shared__ char raw[];
  char* smem = tiles_of(raw);
  Barriers& bar = *reinterpret_cast<Barriers*>(smem + kBarrierOffset);
  if (threadIdx.x == 0) {
    bar.queue.init();
    mbarrier_init(&bar.q_full, 1);
    mbarrier_init(&bar.g_full, 1);
    mbarrier_init(&bar.v_full, 1);
    mbarrier_init(&bar.q_empty, 8);
    mbarrier_init(&bar.g_empty, 8);
    mbarrier_init(&bar.v_empty, 8);
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(&bar.k_full[i], 1);
      mbarrier_init(&bar.k_empty[i], 8);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  share_out<40, 232>(
      [&] {
        if (threadIdx.x == 0) produce(a, maps, smem, bar);
      },
      [&](int group) { consume<kMask>(a, smem, bar, group); });
}

}  // namespace

void backward_queries(cudaStream_t stream, const CausalAttentionBackward& op,
                      const BackwardArguments& a) {
  const auto kernel = op.mask.defined() ? dq_kernel<true> : dq_kernel<false>;
  CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  kernel<<<static_cast<unsigned>(std::min(multiprocessors(), a.items)), kThreads, kSharedBytes,
           stream>>>(backward_maps(op, kRows, kKeys), a);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace glmtune::ops::sm90
