// Gradients of attention over gathered latent rows on sm_90a, BF16, 64 heads, sizes 512 + 64,
// without atomics.
//
// Two passes over a chunk of queries at a time. pairs_kernel, a block a query, its 64 heads being
// the rows of every product: for 64 keys at a time S, P, dP, dS, dQ += dS·K, and for every pair
// (query, key) the row scale·dSᵀ·Q + Pᵀ·dO of 576 gradients, summed over the heads, which it leaves
// in scratch in BF16. sum_kernel, a block a key, adds the rows of the queries that chose the key in
// their order.
#include <cuda_fp16.h>

#include "cuda/check.h"
#include "ops/attention_cuda.cuh"
#include "ops/sparse_mla_sm90.cuh"
#include "ops/sparse_mla_sm90.h"

namespace glmtune::ops::sm90 {
namespace {

constexpr int kHeads = 64, kKeys = kGatherKeys, kRow = 576;
constexpr int kThreads = 384;
constexpr int kPanel = kHeads * 128;
constexpr int kQueryBytes = 9 * kPanel, kGradientBytes = 8 * kPanel;
constexpr int kGradientOffset = kQueryBytes, kKeyOffset = kGradientOffset + kGradientBytes,
              kWeightOffset = kKeyOffset + kGatherBytes, kScoreOffset = kWeightOffset + kPanel,
              kBarrierOffset = kScoreOffset + kPanel, kSharedBytes = kBarrierOffset + 128 + 1024;
constexpr int kWeightsReady = 1, kScoresReady = 2, kScoresRead = 3;

struct Barriers {
  std::uint64_t q_full, q_empty, k_full, k_empty;
  // The second warpgroup's rows: the tiles of P and dS are free. The first warpgroup's own reads of
  // them lie before its products of the next block, for which its four warps come together.
  std::uint64_t rows_made;
};

struct Arguments {
  SparseKeys keys;
  int first, last;           // queries of this chunk
  const float *delta, *lse;  // [T, 64]; lse in units of log 2
  __nv_bfloat16 *dq_latent, *dq_rope, *rows;
  std::int64_t dq_row, dq_head, dq_rope_row, dq_rope_head, slots;
  float scale, scale_log2;
};

__device__ __forceinline__ void produce(const Arguments& a, const CUtensorMap& q_latent,
                                        const CUtensorMap& q_rope, const CUtensorMap& dout,
                                        char* smem, Barriers& bar) {
  unsigned phase = 0, k_phase = 0;
  for (int t = a.first + blockIdx.x; t < a.last; t += gridDim.x) {
    const int count = a.keys.counts[t];
    if (threadIdx.x == 0) {
      mbarrier_wait(&bar.q_empty, phase ^ 1);
      mbarrier_arrive_expect(&bar.q_full, kQueryBytes + kGradientBytes);
      for (int c = 0; c < 8; ++c) {
        tma_load_3d(smem + c * kPanel, &q_latent, &bar.q_full, c * 64, 0, t, kEvictFirst);
        tma_load_3d(smem + kGradientOffset + c * kPanel, &dout, &bar.q_full, c * 64, 0, t,
                    kEvictFirst);
      }
      tma_load_3d(smem + 8 * kPanel, &q_rope, &bar.q_full, 0, 0, t, kEvictFirst);
    }
    phase ^= 1;
    for (int first = 0; first < count; first += kKeys) {
      mbarrier_wait(&bar.k_empty, k_phase ^ 1);
      gather_keys(a.keys, t, first, count, smem + kKeyOffset);
      mbarrier_arrive(&bar.k_full);
      k_phase ^= 1;
    }
  }
}

// Where this lane's pair of columns 8j, 8j + 1 (+ 2(lane % 4)) of `row` lies in a [64 x 64] tile.
__device__ __forceinline__ std::uint32_t* pair_at(char* tile, int row, int j) {
  return reinterpret_cast<std::uint32_t*>(
      tile + swizzle_128(static_cast<std::uint32_t>(row),
                         static_cast<std::uint32_t>(16 * j + threadIdx.x % 4 * 4)));
}

// dQ[64 x N] += dS[64 heads x 64 keys] · K[64 keys x N], both in shared memory.
template <int N>
__device__ __forceinline__ void multiply_scores(float (&d)[N / 2], const char* scores,
                                                const char* keys) {
  const std::uint64_t da = k_major_descriptor(scores);
  const std::uint64_t db = mn_major_descriptor(keys, kGatherPanel);
#pragma unroll
  for (int k = 0; k < 4; ++k)
    Wgmma<N>::template ss<0, 1>(d, advance(da, k * 32), advance(db, k * 2048), 1);
}

// rows[64 keys x 64] (+)= Wᵀ[64 keys x 64 heads] · X[64 heads x 64], W stored by heads.
__device__ __forceinline__ void multiply_transposed(float (&d)[32], const char* weights,
                                                    const char* x, bool accumulate) {
  const std::uint64_t da = mn_major_descriptor(weights, kPanel);
  const std::uint64_t db = mn_major_descriptor(x, kPanel);
#pragma unroll
  for (int k = 0; k < 4; ++k)
    Wgmma<64>::ss<1, 1>(d, advance(da, k * 2048), advance(db, k * 2048), k != 0 || accumulate);
}

// The pairs' gradient rows, columns [64·kFirst, 64·kLast), to scratch.
template <int kFirst, int kLast>
__device__ __forceinline__ void make_rows(const Arguments& a, char* smem, int t, int first,
                                          int count) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int r = first + warp * 16 + lane / 4;
  __nv_bfloat16* row = a.rows + ((t - a.first) * a.slots + r) * kRow;
#pragma unroll
  for (int x = kFirst; x < kLast; ++x) {
    float d[32];
    wgmma_pin(d);
    wgmma_fence();
    multiply_transposed(d, smem + kScoreOffset, smem + x * kPanel, false);
    if (x < 8)
      multiply_transposed(d, smem + kWeightOffset, smem + kGradientOffset + x * kPanel, true);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_pin(d);
    store_rows<2>(d, 1.0f, 1.0f, r < count ? row + x * 64 : nullptr,
                  r + 8 < count ? row + 8 * kRow + x * 64 : nullptr);
  }
}

// The first warpgroup: P; dQ and rows of the columns 0 .. 255.
__device__ __forceinline__ void first_half(const Arguments& a, char* smem, Barriers& bar) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32, c = 2 * (lane % 4);
  const int head = warp * 16 + lane / 4;
  unsigned phase = 0, k_phase = 0;  // of the queries; of the keys and the rows
  float dq[128];
  float s[32];
  for (int t = a.first + blockIdx.x; t < a.last; t += gridDim.x) {
    const int count = a.keys.counts[t];
    const float lse[2] = {a.lse[t * kHeads + head], a.lse[t * kHeads + head + 8]};
#pragma unroll
    for (float& x : dq) x = 0;
    mbarrier_wait(&bar.q_full, phase);
    phase ^= 1;
    for (int first = 0; first < count; first += kKeys) {
      mbarrier_wait(&bar.k_full, k_phase);
      multiply_rows_now<64, 9>(s, smem, kPanel, smem + kKeyOffset, kGatherPanel);
#pragma unroll
      for (int x = 0; x < 32; ++x) {
        s[x] = exp2_fast(fmaf(s[x], a.scale_log2, -lse[x / 2 % 2]));
        if (first + x / 4 * 8 + c + x % 2 >= count) s[x] = 0;
      }
      // The block before is done with the tiles of P and dS. P as BF16 for the products; as half
      // floats (11 bits) for the other warpgroup, through the tile that it then fills with dS.
      mbarrier_wait(&bar.rows_made, k_phase);
      k_phase ^= 1;
      uint4* exchange = reinterpret_cast<uint4*>(smem + kScoreOffset) + threadIdx.x % 128;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        std::uint32_t word[4];
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          const float low = s[8 * k + 2 * x], high = s[8 * k + 2 * x + 1];
          const __half2 two = __floats2half2_rn(low, high);
          word[x] = *reinterpret_cast<const std::uint32_t*>(&two);
          *pair_at(smem + kWeightOffset, head + 8 * (x % 2), 2 * k + x / 2) = pack_bf16(low, high);
        }
        exchange[k * 128] = make_uint4(word[0], word[1], word[2], word[3]);
      }
      fence_async_shared();
      named_barrier_sync(kWeightsReady, 256);
      named_barrier_sync(kScoresReady, 256);
      wgmma_pin(dq);
      wgmma_fence();
      multiply_scores<256>(dq, smem + kScoreOffset, smem + kKeyOffset);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_pin(dq);
      release(&bar.k_empty);
      make_rows<0, 4>(a, smem, t, first, count);
    }
    release(&bar.q_empty);
    __nv_bfloat16* out = a.dq_latent + t * a.dq_row + head * a.dq_head;
    store_rows<8>(dq, 1.0f, 1.0f, out, out + 8 * a.dq_head);
  }
}

// The second warpgroup: dP and dS; dQ and rows of the columns 256 .. 575.
__device__ __forceinline__ void second_half(const Arguments& a, char* smem, Barriers& bar) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int head = warp * 16 + lane / 4;
  unsigned phase = 0, k_phase = 0;
  float dq[128], dq_rope[32];
  float s[32];
  for (int t = a.first + blockIdx.x; t < a.last; t += gridDim.x) {
    const int count = a.keys.counts[t];
    const float delta[2] = {a.delta[t * kHeads + head], a.delta[t * kHeads + head + 8]};
#pragma unroll
    for (float& x : dq) x = 0;
#pragma unroll
    for (float& x : dq_rope) x = 0;
    mbarrier_wait(&bar.q_full, phase);
    phase ^= 1;
    for (int first = 0; first < count; first += kKeys) {
      release(&bar.rows_made);
      mbarrier_wait(&bar.k_full, k_phase);
      k_phase ^= 1;
      multiply_rows_now<64, 8>(s, smem + kGradientOffset, kPanel, smem + kKeyOffset, kGatherPanel);
      named_barrier_sync(kWeightsReady, 256);
      const uint4* exchange =
          reinterpret_cast<const uint4*>(smem + kScoreOffset) + threadIdx.x % 128;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint4 w = exchange[k * 128];
        const std::uint32_t word[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          const float2 p = __half22float2(*reinterpret_cast<const __half2*>(&word[x]));
          const int d = 8 * k + 2 * x;
          s[d] = a.scale * p.x * (s[d] - delta[x % 2]);
          s[d + 1] = a.scale * p.y * (s[d + 1] - delta[x % 2]);
        }
      }
      named_barrier_sync(kScoresRead, 128);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        *pair_at(smem + kScoreOffset, head, j) = pack_bf16(s[4 * j], s[4 * j + 1]);
        *pair_at(smem + kScoreOffset, head + 8, j) = pack_bf16(s[4 * j + 2], s[4 * j + 3]);
      }
      fence_async_shared();
      named_barrier_sync(kScoresReady, 256);
      wgmma_pin(dq);
      wgmma_pin(dq_rope);
      wgmma_fence();
      multiply_scores<256>(dq, smem + kScoreOffset, smem + kKeyOffset + 4 * kGatherPanel);
      multiply_scores<64>(dq_rope, smem + kScoreOffset, smem + kKeyOffset + 8 * kGatherPanel);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_pin(dq);
      wgmma_pin(dq_rope);
      release(&bar.k_empty);
      make_rows<4, 9>(a, smem, t, first, count);
    }
    release(&bar.q_empty);
    __nv_bfloat16* out = a.dq_latent + t * a.dq_row + head * a.dq_head + 256;
    store_rows<8>(dq, 1.0f, 1.0f, out, out + 8 * a.dq_head);
    __nv_bfloat16* rope = a.dq_rope + t * a.dq_rope_row + head * a.dq_rope_head;
    store_rows<2>(dq_rope, 1.0f, 1.0f, rope, rope + 8 * a.dq_rope_head);
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    pairs_kernel(const __grid_constant__ CUtensorMap q_latent,
                 const __grid_constant__ CUtensorMap q_rope,
                 const __grid_constant__ CUtensorMap dout, const Arguments a) {
  extern __shared__ char raw[];
  char* smem = tiles_of(raw);
  Barriers& bar = *reinterpret_cast<Barriers*>(smem + kBarrierOffset);
  if (threadIdx.x == 0) {
    mbarrier_init(&bar.q_full, 1);
    mbarrier_init(&bar.q_empty, 8);
    mbarrier_init(&bar.k_full, 128);
    mbarrier_init(&bar.k_empty, 8);
    mbarrier_init(&bar.rows_made, 4);
    fence_mbarrier_init();
  }
  __syncthreads();
  share_out<56, 224>([&] { produce(a, q_latent, q_rope, dout, smem, bar); },
                     [&](int group) {
                       if (group == 0)
                         first_half(a, smem, bar);
                       else
                         second_half(a, smem, bar);
                     });
}

// One warp a query and head: Δ = dout·out, and lse·log2(e) by query.
__global__ void __launch_bounds__(256)
    sparse_prepare_kernel(const __nv_bfloat16* out, std::int64_t out_row, std::int64_t out_head,
                          const __nv_bfloat16* dout, std::int64_t dout_row, std::int64_t dout_head,
                          const float* lse_in, std::int64_t lse_row, std::int64_t items,
                          float* delta, float* lse) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (item >= items) return;
  const std::int64_t t = item / kHeads, h = item % kHeads;
  const int lane = threadIdx.x % 32;
  float sum = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = half * 256 + 8 * lane;
    const uint4 x = *reinterpret_cast<const uint4*>(out + t * out_row + h * out_head + column);
    const uint4 y = *reinterpret_cast<const uint4*>(dout + t * dout_row + h * dout_head + column);
    sum = dot_bf16(x, y, sum);
  }
#pragma unroll
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (lane == 0) {
    delta[item] = sum;
    lse[item] = lse_in[h * lse_row + t] * 1.4426950408889634f;
  }
}

constexpr std::uint16_t kNone = 0xffff;

// slots[key, query of the chunk] = place of the key in the query's list.
__global__ void __launch_bounds__(256)
    slots_kernel(SparseKeys keys, int first, int chunk, std::uint16_t* slots) {
  const std::int64_t t = first + static_cast<int>(blockIdx.x);
  for (int i = threadIdx.x; i < keys.counts[t]; i += 256)
    slots[keys.indices[t * keys.indices_row + i] * static_cast<std::int64_t>(chunk) + blockIdx.x] =
        static_cast<std::uint16_t>(i);
}

constexpr int kSumThreads = 96, kSumLanes = kRow / 8;  // eight columns a lane

// One block a key: its sum over the chunk's queries, in their order.
__global__ void __launch_bounds__(kSumThreads)
    sum_kernel(const std::uint16_t* slots, int chunk, const __nv_bfloat16* rows,
               std::int64_t row_slots, bool first_chunk, float* sums) {
  __shared__ int list[kQueryChunk];
  __shared__ int per_warp[3];
  const std::int64_t key = blockIdx.x;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int length = 0;
  for (int base = 0; base < chunk; base += kSumThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    const std::uint16_t slot = i < chunk ? slots[key * chunk + i] : kNone;
    const unsigned ballot = __ballot_sync(0xffffffffu, slot != kNone);
    if (lane == 0) per_warp[warp] = __popc(ballot);
    __syncthreads();
    int at = length + __popc(ballot & ((1u << lane) - 1u));
    for (int w = 0; w < warp; ++w) at += per_warp[w];
    if (slot != kNone) list[at] = static_cast<int>(i * row_slots) + slot;
    length += per_warp[0] + per_warp[1] + per_warp[2];
    __syncthreads();
  }
  if (threadIdx.x >= kSumLanes || (length == 0 && !first_chunk)) return;
  float sum[8] = {};
#pragma unroll 4
  for (int n = 0; n < length; ++n) {
    const uint4 x = __ldcs(reinterpret_cast<const uint4*>(
        rows + static_cast<std::int64_t>(list[n]) * kRow + threadIdx.x * 8));
    const std::uint32_t xs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum[2 * i] += __uint_as_float(xs[i] << 16);
      sum[2 * i + 1] += __uint_as_float(xs[i] & 0xffff0000u);
    }
  }
  float4* out = reinterpret_cast<float4*>(sums + key * kRow + threadIdx.x * 8);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float4 total = first_chunk ? make_float4(0, 0, 0, 0) : out[half];
    total.x += sum[4 * half];
    total.y += sum[4 * half + 1];
    total.z += sum[4 * half + 2];
    total.w += sum[4 * half + 3];
    out[half] = total;
  }
}

__global__ void __launch_bounds__(256)
    round_kernel(const float* sums, std::int64_t keys, __nv_bfloat16* dlatent,
                 std::int64_t latent_row, __nv_bfloat16* dk_rope, std::int64_t rope_row) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= keys * kSumLanes) return;
  const std::int64_t key = i / kSumLanes;
  const int column = static_cast<int>(i % kSumLanes) * 8;
  const float4* in = reinterpret_cast<const float4*>(sums + key * kRow + column);
  const float4 a = in[0], b = in[1];
  __nv_bfloat16* out =
      column < 512 ? dlatent + key * latent_row + column : dk_rope + key * rope_row + column - 512;
  *reinterpret_cast<uint4*>(out) = make_uint4(pack_bf16(a.x, a.y), pack_bf16(a.z, a.w),
                                              pack_bf16(b.x, b.y), pack_bf16(b.z, b.w));
}

}  // namespace

void backward(cudaStream_t stream, const SparseMlaBackward& op, Tensor workspace) {
  const std::int64_t queries = op.q_latent.size(0), keys = op.latent.size(0);
  if (keys == 0) return;
  const SparseScratch scratch = sparse_scratch(op);
  auto* base = workspace.as<char>();
  auto* delta = reinterpret_cast<float*>(base + scratch.delta);
  auto* lse = delta + queries * kHeads;
  auto* sums = reinterpret_cast<float*>(base + scratch.sums);
  auto* slots = reinterpret_cast<std::uint16_t*>(base + scratch.slots);
  Arguments a{};
  a.keys = keys_of(op);
  a.delta = delta;
  a.lse = lse;
  a.dq_latent = op.dq_latent.as<__nv_bfloat16>();
  a.dq_rope = op.dq_rope.as<__nv_bfloat16>();
  a.rows = reinterpret_cast<__nv_bfloat16*>(base + scratch.rows);
  a.dq_row = op.dq_latent.stride(0);
  a.dq_head = op.dq_latent.stride(1);
  a.dq_rope_row = op.dq_rope.stride(0);
  a.dq_rope_head = op.dq_rope.stride(1);
  a.slots = op.indices.size(1);
  a.scale = static_cast<float>(op.scale);
  a.scale_log2 = static_cast<float>(op.scale * 1.4426950408889634);
  if (queries > 0) {
    const std::int64_t items = queries * kHeads;
    sparse_prepare_kernel<<<static_cast<unsigned>((items + 7) / 8), 256, 0, stream>>>(
        op.out_latent.as<__nv_bfloat16>(), op.out_latent.stride(0), op.out_latent.stride(1),
        op.dout_latent.as<__nv_bfloat16>(), op.dout_latent.stride(0), op.dout_latent.stride(1),
        op.lse.as<float>(), op.lse.stride(0), items, delta, lse);
    CUDA_CHECK(cudaGetLastError());
    const CUtensorMap q_latent = token_map(op.q_latent), q_rope = token_map(op.q_rope),
                      dout = token_map(op.dout_latent);
    CUDA_CHECK(cudaFuncSetAttribute(pairs_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    kSharedBytes));
    for (std::int64_t first = 0; first < queries; first += scratch.chunk) {
      a.first = static_cast<int>(first);
      a.last = static_cast<int>(std::min(first + scratch.chunk, queries));
      const int here = a.last - a.first;
      const int chunk = static_cast<int>(scratch.chunk);
      pairs_kernel<<<static_cast<unsigned>(std::min(multiprocessors(), here)), kThreads,
                     kSharedBytes, stream>>>(q_latent, q_rope, dout, a);
      CUDA_CHECK(cudaGetLastError());
      CUDA_CHECK(cudaMemsetAsync(slots, 0xff, static_cast<std::size_t>(keys * chunk) * 2, stream));
      slots_kernel<<<static_cast<unsigned>(here), 256, 0, stream>>>(a.keys, a.first, chunk, slots);
      sum_kernel<<<static_cast<unsigned>(keys), kSumThreads, 0, stream>>>(
          slots, chunk, a.rows, a.slots, first == 0, sums);
      CUDA_CHECK(cudaGetLastError());
    }
  } else {
    CUDA_CHECK(cudaMemsetAsync(sums, 0, static_cast<std::size_t>(keys) * kRow * 4, stream));
  }
  round_kernel<<<static_cast<unsigned>((keys * kSumLanes + 255) / 256), 256, 0, stream>>>(
      sums, keys, op.dlatent.as<__nv_bfloat16>(), op.dlatent.stride(0),
      op.dk_rope.as<__nv_bfloat16>(), op.dk_rope.stride(0));
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace glmtune::ops::sm90
