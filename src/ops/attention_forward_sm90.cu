// Dense causal attention forward on sm_90a, BF16, head sizes 192 + 64 / 256.
//
// A block works on 128 query rows of one head at a time, in steps of 80 keys from the diagonal down
// (the largest step for which two stages of keys and values fit beside the queries). One warp feeds
// shared memory through TMA, two warpgroups of 64 rows multiply. While a warpgroup's P·V of one
// step runs, it computes the softmax of the next. Blocks are persistent.
#include "cuda/check.h"
#include "cuda/tensor_map.h"
#include "ops/attention_cuda.cuh"
#include "ops/attention_sm90.cuh"

namespace glmtune::ops::sm90 {

__global__ void plan_spans(const std::int32_t* bounds, int documents, int rows, int padding,
                           Span* spans, int* counter) {
  const int d = blockIdx.x;
  const int begin = bounds[2 * d], length = bounds[2 * d + 1] - begin;
  if (d == 0 && threadIdx.x == 0) *counter = 0;
  int first = 0, padded = 0;
  for (int e = 0; e < documents; ++e) {
    const int other = bounds[2 * e + 1] - bounds[2 * e];
    if (other > length || (other == length && e < d)) first += (other + rows - 1) / rows;
    if (e < d) padded += (other + padding - 1) / padding * padding;
  }
  for (int i = threadIdx.x; i < (length + rows - 1) / rows; i += blockDim.x)
    spans[first + i] = {begin, length, first, padded};
}

namespace {

constexpr int kRows = 128, kKeys = 80, kStages = 2;
constexpr int kThreads = 384;
constexpr int kQueryPanel = kRows * 128, kKeyPanel = kKeys * 128;
constexpr int kQueryBytes = 4 * kQueryPanel, kKeyBytes = 4 * kKeyPanel;
constexpr int kTilesBytes = kQueryBytes + 2 * kStages * kKeyBytes;
constexpr int kSharedBytes = kTilesBytes + 256 + 1024;

struct Barriers {
  std::uint64_t q_full, q_empty;
  std::uint64_t k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  ItemQueue queue;
};
static_assert(sizeof(Barriers) <= 256);

struct Arguments {
  const Span* spans;
  int* counter;
  int items, heads;
  __nv_bfloat16* out;
  std::int64_t out_row, out_head, lse_row;
  float* lse;
  const std::uint32_t* mask;
  std::int64_t mask_row;
  int mask_words;
  float scale, scale_log2;
};

__device__ __forceinline__ int steps(int rows_seen, int length) {
  return (min(rows_seen, length) + kKeys - 1) / kKeys;
}

__device__ __forceinline__ void produce(const Arguments& a, const CUtensorMap& q,
                                        const CUtensorMap& k_nope, const CUtensorMap& k_rope,
                                        const CUtensorMap& v, char* smem, Barriers& bar) {
  char* keys = smem + kQueryBytes;
  char* values = keys + kStages * kKeyBytes;
  Ring<kStages> ring;
  Ring<2> queue;
  unsigned q_phase = 0;
  for (int i = blockIdx.x, next = 0; i < a.items; i = next) {
    const Item item = query_item<kRows, kKeys>(a.spans, a.heads, i);
    next = static_cast<int>(gridDim.x) + atomicAdd(a.counter, 1);
    bar.queue.push(queue, item);
    for (int n = item.steps - 1; n >= 0; --n) {
      const int row = item.begin + n * kKeys;
      char* k = keys + ring.stage * kKeyBytes;
      mbarrier_wait(&bar.k_empty[ring.stage], ring.phase ^ 1);
      mbarrier_arrive_expect(&bar.k_full[ring.stage], kKeyBytes);
      for (int c = 0; c < 3; ++c)
        tma_load_3d(k + c * kKeyPanel, &k_nope, &bar.k_full[ring.stage], c * 64, item.head, row,
                    kEvictLast);
      tma_load_2d(k + 3 * kKeyPanel, &k_rope, &bar.k_full[ring.stage], 0, row, kEvictLast);
      // The tile's first keys are under way before its queries: those must wait until the last
      // product of the tile before has read its own.
      if (n == item.steps - 1) {
        mbarrier_wait(&bar.q_empty, q_phase ^ 1);
        mbarrier_arrive_expect(&bar.q_full, kQueryBytes);
        for (int c = 0; c < 4; ++c)
          tma_load_3d(smem + c * kQueryPanel, &q, &bar.q_full, c * 64, item.head,
                      item.begin + item.row, kEvictFirst);
        q_phase ^= 1;
      }
      char* x = values + ring.stage * kKeyBytes;
      mbarrier_wait(&bar.v_empty[ring.stage], ring.phase ^ 1);
      mbarrier_arrive_expect(&bar.v_full[ring.stage], kKeyBytes);
      for (int c = 0; c < 4; ++c)
        tma_load_3d(x + c * kKeyPanel, &v, &bar.v_full[ring.stage], c * 64, item.head, row,
                    kEvictLast);
      ring.next();
    }
  }
  bar.queue.push(queue, no_item());
}

// Scores that a row may not see become −inf. `row` is the lane's first row in the document, `n0`
// the step's first key.
template <bool kMask>
__device__ __forceinline__ void hide(const Arguments& a, float (&s)[kKeys / 2], int token, int row,
                                     int length, int n0, bool causal) {
  const int c = 2 * (threadIdx.x % 4);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + 8 * half;
    std::uint32_t bits[3];
    if constexpr (kMask) {
      std::uint32_t w[3] = {0, 0, 0};
      const int first = n0 / 32, shift = n0 % 32 + c;
      if (r < length) {
        const std::uint32_t* words = a.mask + (token + 8 * half) * a.mask_row;
#pragma unroll
        for (int i = 0; i < 3; ++i)
          if (first + i < a.mask_words) w[i] = __ldg(words + first + i);
      }
      bits[0] = __funnelshift_r(w[0], w[1], shift);
      bits[1] = __funnelshift_r(w[1], w[2], shift);
      bits[2] = w[2] >> shift;
    }
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = s[4 * j + 2 * half + e];
        bool seen = !causal || n0 + 8 * j + c + e <= r;
        if constexpr (kMask) seen = seen && ((bits[j / 4] >> (8 * (j % 4) + e)) & 1u) != 0;
        if (!seen) x = -INFINITY;
      }
  }
}

template <bool kMask>
__device__ __forceinline__ void consume(const Arguments& a, char* smem, Barriers& bar, int group) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const char* q = smem + group * 64 * 128;
  char* keys = smem + kQueryBytes;
  char* values = keys + kStages * kKeyBytes;
  Ring<kStages> k_ring, v_ring;
  unsigned q_phase = 0;
  float o[128];
  float s[kKeys / 2];
  std::uint32_t p[kKeys / 16][4];

  Ring<2> queue;
  for (Item item = bar.queue.pop(queue); item.head >= 0; item = bar.queue.pop(queue)) {
    const int group_row = item.row + group * 64;
    const int row = group_row + warp * 16 + lane / 4;
    const int token = item.begin + row;
    const int length = item.length;
    mbarrier_wait(&bar.q_full, q_phase);
    q_phase ^= 1;
    int n = item.steps - 1;
    // The first warpgroup's rows may end before the tile's last step.
    for (; n >= steps(group_row + 64, length); --n) {
      mbarrier_wait(&bar.k_full[k_ring.stage], k_ring.phase);
      release(&bar.k_empty[k_ring.stage]);
      k_ring.next();
      mbarrier_wait(&bar.v_full[v_ring.stage], v_ring.phase);
      release(&bar.v_empty[v_ring.stage]);
      v_ring.next();
    }

    Softmax m = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    float shrink[2];
    mbarrier_wait(&bar.k_full[k_ring.stage], k_ring.phase);
    multiply_rows_now<kKeys>(s, q, kQueryPanel, keys + k_ring.stage * kKeyBytes, kKeyPanel);
    release(&bar.k_empty[k_ring.stage]);
    k_ring.next();
    hide<kMask>(a, s, token, row, length, n * kKeys, true);
    weigh<kKeys>(s, m, shrink, a.scale_log2);
    pack_weights<kKeys>(p, s);
    if (const int tail = length - n * kKeys; tail < kKeys) {
      mbarrier_wait(&bar.v_full[v_ring.stage], v_ring.phase);
      zero_tail(values + v_ring.stage * kKeyBytes, kKeyPanel, tail, kKeys, 1 + group);
    }
    shrink[0] = shrink[1] = 1.0f;
#pragma unroll
    for (float& x : o) x = 0;
    for (--n; n >= 0; --n) {
      mbarrier_wait(&bar.k_full[k_ring.stage], k_ring.phase);
      wgmma_pin(s);
      wgmma_fence();
      multiply_rows<kKeys>(s, q, kQueryPanel, keys + k_ring.stage * kKeyBytes, kKeyPanel);
      wgmma_commit();
      mbarrier_wait(&bar.v_full[v_ring.stage], v_ring.phase);
      rescale(o, shrink);
      wgmma_pin(o);
      wgmma_fence();
      multiply_weights(o, p, values + v_ring.stage * kKeyBytes, kKeyPanel, true);
      wgmma_commit();
      wgmma_wait<1>();
      wgmma_pin(s);
      release(&bar.k_empty[k_ring.stage]);
      k_ring.next();
      const bool diagonal = n * kKeys + kKeys - 1 > group_row;
      if (kMask || diagonal) hide<kMask>(a, s, token, row, length, n * kKeys, diagonal);
      weigh<kKeys>(s, m, shrink, a.scale_log2);
      wgmma_wait<0>();
      wgmma_pin(o);
      release(&bar.v_empty[v_ring.stage]);
      v_ring.next();
      pack_weights<kKeys>(p, s);
    }
    release(&bar.q_empty);
    mbarrier_wait(&bar.v_full[v_ring.stage], v_ring.phase);
    rescale(o, shrink);
    wgmma_pin(o);
    wgmma_fence();
    multiply_weights(o, p, values + v_ring.stage * kKeyBytes, kKeyPanel, true);
    wgmma_commit();
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = whole_sum(m, half);
      inverse[half] = sum > 0 ? 1.0f / sum : 0.0f;
      if (lane % 4 == 0 && row + 8 * half < length)
        a.lse[item.head * a.lse_row + token + 8 * half] =
            sum > 0 ? m.top[half] * a.scale + logf(sum) : -INFINITY;
    }
    wgmma_wait<0>();
    wgmma_pin(o);
    release(&bar.v_empty[v_ring.stage]);
    v_ring.next();
    __nv_bfloat16* out = a.out + token * a.out_row + item.head * a.out_head;
    store_rows<8>(o, inverse[0], inverse[1], row < length ? out : nullptr,
                  row + 8 < length ? out + 8 * a.out_row : nullptr);
  }
}

template <bool kMask>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(const __grid_constant__ CUtensorMap q,
                   const __grid_constant__ CUtensorMap k_nope,
                   const __grid_constant__ CUtensorMap k_rope,
                   const __grid_constant__ CUtensorMap v, const Arguments a) {
  extern __shared__ char raw[];
  char* smem = tiles_of(raw);
  Barriers& bar = *reinterpret_cast<Barriers*>(smem + kTilesBytes);
  if (threadIdx.x == 0) {
    bar.queue.init();
    mbarrier_init(&bar.q_full, 1);
    mbarrier_init(&bar.q_empty, 8);
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(&bar.k_full[i], 1);
      mbarrier_init(&bar.v_full[i], 1);
      mbarrier_init(&bar.k_empty[i], 8);
      mbarrier_init(&bar.v_empty[i], 8);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  share_out<40, 232>(
      [&] {
        if (threadIdx.x == 0) produce(a, q, k_nope, k_rope, v, smem, bar);
      },
      [&](int group) { consume<kMask>(a, smem, bar, group); });
}

}  // namespace

void forward(cudaStream_t stream, const CausalAttention& op, Tensor workspace) {
  const auto tile_total = static_cast<int>(tile_count(op.documents, kRows));
  if (tile_total == 0) return;
  auto* counter = workspace.as<int>();
  auto* spans = reinterpret_cast<Span*>(workspace.as<char>() + kCounterBytes);
  plan_spans<<<static_cast<unsigned>(op.documents.count), 128, 0, stream>>>(
      op.documents.bounds.as<std::int32_t>(), static_cast<int>(op.documents.count), kRows, kRows,
      spans, counter);
  const auto heads = static_cast<int>(op.q.size(1));
  const Arguments a{.spans = spans,
                    .counter = counter,
                    .items = tile_total * heads,
                    .heads = heads,
                    .out = op.out.as<__nv_bfloat16>(),
                    .out_row = op.out.stride(0),
                    .out_head = op.out.stride(1),
                    .lse_row = op.lse.stride(0),
                    .lse = op.lse.as<float>(),
                    .mask = op.mask.defined() ? op.mask.as<std::uint32_t>() : nullptr,
                    .mask_row = op.mask.defined() ? op.mask.stride(0) : 0,
                    .mask_words = op.mask.defined() ? static_cast<int>(op.mask.size(1)) : 0,
                    .scale = static_cast<float>(op.scale),
                    .scale_log2 = static_cast<float>(op.scale * 1.4426950408889634)};
  const auto kernel = op.mask.defined() ? forward_kernel<true> : forward_kernel<false>;
  CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const int blocks = std::min(multiprocessors(), a.items);
  kernel<<<static_cast<unsigned>(blocks), kThreads, kSharedBytes, stream>>>(
      head_map(op.q, kRows), head_map(op.k_nope, kKeys), row_map(op.k_rope, kKeys),
      head_map(op.v, kKeys), a);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace glmtune::ops::sm90
