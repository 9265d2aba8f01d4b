// Gradients of keys and values of dense causal attention on sm_90a, BF16, head sizes 192 + 64 /
// 256, and what both backward kernels read: Δ and the log-sums, padded to whole tiles.
//
// A block holds 64 key rows of one head and walks the query rows from the diagonal down in steps of
// 64. One warpgroup makes Pᵀ = exp(K·Qᵀ − lse) and dV += Pᵀ·dO, the other dPᵀ = V·dOᵀ,
// dSᵀ = Pᵀ∘(dPᵀ − Δ) and dK += dSᵀ·Q; Pᵀ crosses from the first to the second as half floats (P ≤
// 1: 11 bits). A block goes on through a few heads and keeps the rope columns of dK, which all
// heads share, in its accumulator. No atomics: every sum has one order.
#include <cuda_fp16.h>

#include "cuda/check.h"
#include "ops/attention_backward_sm90.cuh"
#include "ops/attention_cuda.cuh"

namespace glmtune::ops::sm90 {
namespace {

constexpr int kRows = 64;  // of keys and of queries
constexpr int kStages = 2;
constexpr int kThreads = 384;
constexpr int kPanel = kRows * 128;
constexpr int kBytes = 4 * kPanel;  // one operand's tile
constexpr int kExchangeBytes = 128 * 64;
// Named barrier of the exchange. A buffer is written again two steps later: by then the step
// between has brought both warpgroups past its reading.
constexpr int kExchanged = 3;
constexpr int kKeyOffset = 0, kValueOffset = kBytes, kQueryOffset = 2 * kBytes,
              kGradientOffset = kQueryOffset + kStages * kBytes,
              kExchangeOffset = kGradientOffset + kStages * kBytes,
              kBarrierOffset = kExchangeOffset + 2 * kExchangeBytes,
              kSharedBytes = kBarrierOffset + 256 + 1024;

struct Barriers {
  std::uint64_t k_full, k_empty, v_full, v_empty;
  std::uint64_t q_full[kStages], q_empty[kStages], g_full[kStages], g_empty[kStages];
  ItemQueue queue;
};
static_assert(sizeof(Barriers) <= 256);

__device__ __forceinline__ Item item_at(const BackwardArguments& a, int item) {
  const int groups = a.heads / a.group;
  const Span span = a.spans[item / groups];
  const int n = (span.length + kRows - 1) / kRows;
  const int local = item - span.first * groups;
  return {span.begin,        span.length,         span.padded,
          local % n * kRows, local / n * a.group, n - local % n};
}

__device__ __forceinline__ void produce(const BackwardArguments& a, const BackwardMaps& maps,
                                        char* smem, Barriers& bar) {
  Ring<kStages> ring;
  Ring<2> queue;
  unsigned phase = 0;
  for (int i = blockIdx.x, next = 0; i < a.items; i = next) {
    const Item item = item_at(a, i);
    next = static_cast<int>(gridDim.x) + atomicAdd(a.counter, 1);
    bar.queue.push(queue, item);
    for (int h = item.head; h < item.head + a.group; ++h) {
      const int key = item.begin + item.row;
      mbarrier_wait(&bar.k_empty, phase ^ 1);
      mbarrier_arrive_expect(&bar.k_full, kBytes);
      load_keys(smem + kKeyOffset, kPanel, maps, &bar.k_full, h, key);
      for (int n = 0; n < item.steps; ++n) {
        const int query = item.row + n * kRows;
        mbarrier_wait(&bar.q_empty[ring.stage], ring.phase ^ 1);
        mbarrier_arrive_expect(&bar.q_full[ring.stage], kBytes);
        load_head(smem + kQueryOffset + ring.stage * kBytes, kPanel, maps.q,
                  &bar.q_full[ring.stage], h, item.begin + query);
        if (n == 0) {
          mbarrier_wait(&bar.v_empty, phase ^ 1);
          mbarrier_arrive_expect(&bar.v_full, kBytes);
          load_head(smem + kValueOffset, kPanel, maps.v, &bar.v_full, h, key);
        }
        mbarrier_wait(&bar.g_empty[ring.stage], ring.phase ^ 1);
        mbarrier_arrive_expect(&bar.g_full[ring.stage], kBytes);
        load_head(smem + kGradientOffset + ring.stage * kBytes, kPanel, maps.dout,
                  &bar.g_full[ring.stage], h, item.begin + query);
        ring.next();
      }
      phase ^= 1;
    }
  }
  bar.queue.push(queue, no_item());
}

// The last step's query rows may lie behind the document; the tensor cores sum over them.
__device__ __forceinline__ void clear_tail(const Item& item, int n, char* smem, int stage,
                                           Barriers& bar, unsigned phase, int barrier) {
  const int rows = item.length - (item.row + n * kRows);
  if (rows >= kRows) return;
  mbarrier_wait(&bar.q_full[stage], phase);
  mbarrier_wait(&bar.g_full[stage], phase);
  zero_tail(smem + kQueryOffset + stage * kBytes, kPanel, rows, kRows, barrier);
  zero_tail(smem + kGradientOffset + stage * kBytes, kPanel, rows, kRows, barrier);
}

// What the lane needs of `values` [padded rows] for the 64 queries of a step: its 16 columns'.
__device__ __forceinline__ void load_columns(float2 (&x)[8], const BackwardArguments& a,
                                             const float* values, const Item& item, int h, int n) {
  const float* from =
      values + h * a.padded_rows + item.padded + item.row + n * kRows + 2 * (threadIdx.x % 4);
#pragma unroll
  for (int j = 0; j < 8; ++j) x[j] = __ldg(reinterpret_cast<const float2*>(from + 8 * j));
}

// The lane's column words of the selection, shifted to its keys' bits: the word of a query that
// holds this warp's 16 keys.
__device__ __forceinline__ void load_bits(std::uint32_t (&bits)[16], const BackwardArguments& a,
                                          const Item& item, int n) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int word = item.row / 32 + warp / 2;
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    const int query = item.row + n * kRows + 8 * (j / 2) + 2 * (lane % 4) + j % 2;
    bits[j] = query < item.length && word < a.mask_words
                  ? __ldg(a.mask + (item.begin + query) * a.mask_row + word)
                  : 0;
  }
}

template <bool kMask>
__device__ __forceinline__ void make_values(const BackwardArguments& a, char* smem, Barriers& bar) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int c = 2 * (lane % 4), r = warp * 16 + lane / 4;
  Ring<kStages> ring;
  Ring<2> queue;
  Ring<2> exchange;
  unsigned phase = 0;
  float dv[128];
  float s[32];
  std::uint32_t p[4][4];
  std::uint32_t bits[16];
  const int shift = warp % 2 * 16 + lane / 4;
  for (Item item = bar.queue.pop(queue); item.head >= 0; item = bar.queue.pop(queue)) {
    const int key = item.row;
    if constexpr (kMask) load_bits(bits, a, item, 0);
    for (int h = item.head; h < item.head + a.group; ++h) {
#pragma unroll
      for (float& x : dv) x = 0;
      mbarrier_wait(&bar.k_full, phase);
      for (int n = 0; n < item.steps; ++n) {
        float2 lse[8];
        load_columns(lse, a, a.lse, item, h, n);
        clear_tail(item, n, smem, ring.stage, bar, ring.phase, 1);
        mbarrier_wait(&bar.q_full[ring.stage], ring.phase);
        multiply_rows_now<64>(s, smem + kKeyOffset, kPanel,
                              smem + kQueryOffset + ring.stage * kBytes, kPanel);
        if (n == item.steps - 1) release(&bar.k_empty);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
#pragma unroll
          for (int e = 0; e < 2; ++e)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              float& x = s[4 * j + 2 * half + e];
              x = exp2_fast(fmaf(x, a.scale_log2, e == 0 ? -lse[j].x : -lse[j].y));
              bool seen = n > 0 || 8 * j + c + e >= r + 8 * half;
              if constexpr (kMask)
                seen = seen && ((bits[2 * j + e] >> (shift + 8 * half)) & 1u) != 0;
              if (!seen) x = 0;
            }
        }
        release(&bar.q_empty[ring.stage]);
        // The next step's selection, a step ahead of its use.
        if constexpr (kMask) load_bits(bits, a, item, n + 1 < item.steps ? n + 1 : 0);
        // Half floats to the other warpgroup, same lane, same places.
        uint4* out =
            reinterpret_cast<uint4*>(smem + kExchangeOffset + exchange.stage * kExchangeBytes) +
            threadIdx.x % 128;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          std::uint32_t half[4];
#pragma unroll
          for (int x = 0; x < 4; ++x) {
            const __half2 two = __floats2half2_rn(s[8 * k + 2 * x], s[8 * k + 2 * x + 1]);
            half[x] = *reinterpret_cast<const std::uint32_t*>(&two);
          }
          out[k * 128] = make_uint4(half[0], half[1], half[2], half[3]);
        }
        named_barrier_sync(kExchanged, 256);
        exchange.next();
        pack_weights<64>(p, s);
        mbarrier_wait(&bar.g_full[ring.stage], ring.phase);
        add_weighted(dv, p, smem + kGradientOffset + ring.stage * kBytes, kPanel);
        release(&bar.g_empty[ring.stage]);
        ring.next();
      }
      phase ^= 1;
      __nv_bfloat16* row = a.dv + (item.begin + key + r) * a.dv_row + h * a.dv_head;
      store_rows<8>(dv, 1.0f, 1.0f, key + r < item.length ? row : nullptr,
                    key + r + 8 < item.length ? row + 8 * a.dv_row : nullptr);
    }
  }
}

__device__ __forceinline__ void make_keys(const BackwardArguments& a, char* smem, Barriers& bar) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int c = 2 * (lane % 4), r = warp * 16 + lane / 4;
  Ring<kStages> ring;
  Ring<2> queue;
  Ring<2> exchange;
  unsigned phase = 0;
  float dk[128];
  float s[32];
  std::uint32_t p[4][4];
  for (Item item = bar.queue.pop(queue); item.head >= 0; item = bar.queue.pop(queue)) {
    const int key = item.row;
#pragma unroll
    for (int x = 96; x < 128; ++x) dk[x] = 0;
    for (int h = item.head; h < item.head + a.group; ++h) {
#pragma unroll
      for (int x = 0; x < 96; ++x) dk[x] = 0;
      mbarrier_wait(&bar.v_full, phase);
      for (int n = 0; n < item.steps; ++n) {
        float2 delta[8];
        load_columns(delta, a, a.delta, item, h, n);
        clear_tail(item, n, smem, ring.stage, bar, ring.phase, 2);
        mbarrier_wait(&bar.g_full[ring.stage], ring.phase);
        multiply_rows_now<64>(s, smem + kValueOffset, kPanel,
                              smem + kGradientOffset + ring.stage * kBytes, kPanel);
        if (n == item.steps - 1) release(&bar.v_empty);
        named_barrier_sync(kExchanged, 256);
        const uint4* in = reinterpret_cast<const uint4*>(smem + kExchangeOffset +
                                                         exchange.stage * kExchangeBytes) +
                          threadIdx.x % 128;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const uint4 w = in[k * 128];
          const std::uint32_t word[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
          for (int x = 0; x < 4; ++x) {
            const float2 weight = __half22float2(*reinterpret_cast<const __half2*>(&word[x]));
            const int j = 2 * k + x / 2, d = 8 * k + 2 * x;
            s[d] = weight.x == 0 ? 0.0f : weight.x * (s[d] - delta[j].x);
            s[d + 1] = weight.y == 0 ? 0.0f : weight.y * (s[d + 1] - delta[j].y);
          }
        }
        release(&bar.g_empty[ring.stage]);
        exchange.next();
        pack_weights<64>(p, s);
        mbarrier_wait(&bar.q_full[ring.stage], ring.phase);
        add_weighted(dk, p, smem + kQueryOffset + ring.stage * kBytes, kPanel);
        release(&bar.q_empty[ring.stage]);
        ring.next();
      }
      phase ^= 1;
      __nv_bfloat16* row = a.dk + (item.begin + key + r) * a.dk_row + h * a.dk_head;
      store_rows<6>(dk, a.scale, a.scale, key + r < item.length ? row : nullptr,
                    key + r + 8 < item.length ? row + 8 * a.dk_row : nullptr);
    }
    float* part =
        a.rope +
        (static_cast<std::int64_t>(item.head / a.group) * a.padded_rows + item.padded + key + r) *
            64 +
        c;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      *reinterpret_cast<float2*>(part + 8 * j) = make_float2(dk[96 + 4 * j], dk[97 + 4 * j]);
      *reinterpret_cast<float2*>(part + 8 * 64 + 8 * j) =
          make_float2(dk[98 + 4 * j], dk[99 + 4 * j]);
    }
  }
}

template <bool kMask>
__global__ void __launch_bounds__(kThreads, 1)
    dkv_kernel(const __grid_constant__ BackwardMaps maps, const BackwardArguments a) {
  extern __shared__ char raw[];
  char* smem = tiles_of(raw);
  Barriers& bar = *reinterpret_cast<Barriers*>(smem + kBarrierOffset);
  if (threadIdx.x == 0) {
    bar.queue.init();
    mbarrier_init(&bar.k_full, 1);
    mbarrier_init(&bar.v_full, 1);
    mbarrier_init(&bar.k_empty, 4);
    mbarrier_init(&bar.v_empty, 4);
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(&bar.q_full[i], 1);
      mbarrier_init(&bar.g_full[i], 1);
      mbarrier_init(&bar.q_empty[i], 8);
      mbarrier_init(&bar.g_empty[i], 8);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  share_out<40, 232>(
      [&] {
        if (threadIdx.x == 0) produce(a, maps, smem, bar);
      },
      [&](int group) {
        if (group == 0)
          make_values<kMask>(a, smem, bar);
        else
          make_keys(a, smem, bar);
      });
}

// One warp a row and head: Δ = dout·out and lse·log2(e), at the row's padded place. Padding, and
// rows that see no key, get lse = +inf, so that their weights are 0.
__global__ void __launch_bounds__(256)
    prepare_kernel(const BackwardArguments a, const __nv_bfloat16* out, const __nv_bfloat16* dout,
                   std::int64_t out_row, std::int64_t out_head, std::int64_t dout_row,
                   std::int64_t dout_head, const float* lse_in, std::int64_t lse_row, float* lse,
                   float* delta) {
  const Span span = a.spans[blockIdx.x];
  const int first = (static_cast<int>(blockIdx.x) - span.first) * kRows;
  const int lane = threadIdx.x % 32;
  const int h = blockIdx.y;
  for (int r = first + threadIdx.x / 32; r < first + kRows; r += 8) {
    float sum = 0, log_sum = INFINITY;
    if (r < span.length) {
      const std::int64_t t = span.begin + r;
      const uint4 x = *reinterpret_cast<const uint4*>(out + t * out_row + h * out_head + 8 * lane);
      const uint4 y =
          *reinterpret_cast<const uint4*>(dout + t * dout_row + h * dout_head + 8 * lane);
      sum = dot_bf16(x, y, sum);
#pragma unroll
      for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
      const float l = lse_in[h * lse_row + t];
      log_sum = l == -INFINITY ? INFINITY : l * 1.4426950408889634f;
    }
    if (lane == 0) {
      const std::int64_t at = h * a.padded_rows + span.padded + r;
      lse[at] = log_sum;
      delta[at] = sum;
    }
  }
}

// dk_rope = scale · sum of the head groups' parts, in order.
__global__ void __launch_bounds__(256)
    rope_kernel(const BackwardArguments a, int groups, __nv_bfloat16* dk_rope, std::int64_t row) {
  const Span span = a.spans[blockIdx.x];
  const int first = (static_cast<int>(blockIdx.x) - span.first) * kRows;
  for (int i = threadIdx.x; i < kRows * 16; i += 256) {
    const int r = first + i / 16, column = i % 16 * 4;
    if (r >= span.length) continue;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int g = 0; g < groups; ++g) {
      const float4 x = *reinterpret_cast<const float4*>(
          a.rope + (g * a.padded_rows + span.padded + r) * 64 + column);
      sum = make_float4(sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w);
    }
    uint2 packed;
    packed.x = pack_bf16(sum.x * a.scale, sum.y * a.scale);
    packed.y = pack_bf16(sum.z * a.scale, sum.w * a.scale);
    *reinterpret_cast<uint2*>(dk_rope + (span.begin + r) * row + column) = packed;
  }
}

}  // namespace

void backward(cudaStream_t stream, const CausalAttentionBackward& op, Tensor workspace) {
  const BackwardScratch scratch = backward_scratch(op);
  if (scratch.key_tiles == 0) return;
  auto* base = workspace.as<char>();
  auto* counters = reinterpret_cast<int*>(base);
  auto* key_list = reinterpret_cast<Span*>(base + scratch.key_list);
  auto* query_list = reinterpret_cast<Span*>(base + scratch.query_list);
  auto* lse = reinterpret_cast<float*>(base + scratch.lse);
  auto* delta = reinterpret_cast<float*>(base + scratch.delta);
  const auto documents = static_cast<int>(op.documents.count);
  const auto* bounds = op.documents.bounds.as<std::int32_t>();
  plan_spans<<<static_cast<unsigned>(documents), 128, 0, stream>>>(bounds, documents, kRows, kRows,
                                                                   key_list, counters);
  plan_spans<<<static_cast<unsigned>(documents), 128, 0, stream>>>(
      bounds, documents, static_cast<int>(kQueryTile), kRows, query_list, counters + 1);

  const auto heads = static_cast<int>(op.q.size(1));
  BackwardArguments a{};
  const auto key_tiles = static_cast<unsigned>(scratch.key_tiles);
  a.spans = key_list;
  a.counter = counters;
  a.heads = heads;
  a.group = static_cast<int>(scratch.group);
  a.items = static_cast<int>(scratch.key_tiles) * heads / a.group;
  a.padded_rows = scratch.padded_rows;
  a.lse = lse;
  a.delta = delta;
  a.rope = reinterpret_cast<float*>(base + scratch.rope);
  a.mask = op.mask.defined() ? op.mask.as<std::uint32_t>() : nullptr;
  a.mask_row = op.mask.defined() ? op.mask.stride(0) : 0;
  a.mask_words = op.mask.defined() ? static_cast<int>(op.mask.size(1)) : 0;
  a.dq = op.dq.as<__nv_bfloat16>();
  a.dk = op.dk_nope.as<__nv_bfloat16>();
  a.dv = op.dv.as<__nv_bfloat16>();
  a.dq_row = op.dq.stride(0);
  a.dq_head = op.dq.stride(1);
  a.dk_row = op.dk_nope.stride(0);
  a.dk_head = op.dk_nope.stride(1);
  a.dv_row = op.dv.stride(0);
  a.dv_head = op.dv.stride(1);
  a.scale = static_cast<float>(op.scale);
  a.scale_log2 = static_cast<float>(op.scale * 1.4426950408889634);

  prepare_kernel<<<dim3(key_tiles, static_cast<unsigned>(heads)), 256, 0, stream>>>(
      a, op.out.as<__nv_bfloat16>(), op.dout.as<__nv_bfloat16>(), op.out.stride(0),
      op.out.stride(1), op.dout.stride(0), op.dout.stride(1), op.lse.as<float>(), op.lse.stride(0),
      lse, delta);
  CUDA_CHECK(cudaGetLastError());

  const auto kernel = op.mask.defined() ? dkv_kernel<true> : dkv_kernel<false>;
  CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  kernel<<<static_cast<unsigned>(std::min(multiprocessors(), a.items)), kThreads, kSharedBytes,
           stream>>>(backward_maps(op, kRows, kRows), a);
  CUDA_CHECK(cudaGetLastError());
  rope_kernel<<<key_tiles, 256, 0, stream>>>(a, heads / a.group, op.dk_rope.as<__nv_bfloat16>(),
                                             op.dk_rope.stride(0));
  CUDA_CHECK(cudaGetLastError());
  a.spans = query_list;
  a.counter = counters + 1;
  a.items = static_cast<int>(scratch.query_tiles) * heads;
  backward_queries(stream, op, a);
}

}  // namespace glmtune::ops::sm90
