#pragma once
// What the dense attention kernels for sm_90a share: the list of tiles in the order they are worked
// on, tile-wide products, and stores of accumulators.
#include "cuda/sm90.cuh"
#include "cuda/sm90_wgmma.cuh"
#include "cuda/tensor_map.h"
#include "tensor/tensor.h"

namespace glmtune::ops::sm90 {

using namespace glmtune::sm90;

// One entry a tile: the document it belongs to. Rows [begin, begin + length); `first` is the
// document's first tile in the list, `padded` its first row in scratch where every document is
// padded to whole key tiles.
struct Span {
  int begin, length, first, padded;
};

// Work is ordered by documents, long ones first, and within one so that the blocks that run
// together share a few heads: their keys and values stay in L2. One block a document writes its
// tiles' entries and sets the counter from which the persistent blocks take their next item to 0.
__global__ void plan_spans(const std::int32_t* bounds, int documents, int rows, int padding,
                           Span* spans, int* counter);

// Heads whose tiles (n each) are worked on together: about a block for each multiprocessor.
__device__ __forceinline__ int heads_together(int tiles, int heads) {
  int g = 1;
  while (g * tiles < 128 && heads % (2 * g) == 0) g *= 2;
  return g;
}

// S[64 x N] = A[64 x 64·kPanels] · B[N x 64·kPanels]ᵀ, both K-major in panels of 64 columns.
template <int N, int kPanels = 4>
__device__ __forceinline__ void multiply_rows(float (&s)[N / 2], const char* a, int a_panel,
                                              const char* b, int b_panel) {
#pragma unroll
  for (int c = 0; c < kPanels; ++c) {
    const std::uint64_t da = k_major_descriptor(a + c * a_panel);
    const std::uint64_t db = k_major_descriptor(b + c * b_panel);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      Wgmma<N>::template ss<0, 0>(s, advance(da, k * 32), advance(db, k * 32), (c | k) != 0);
  }
}

// The same, waited for.
template <int N, int kPanels = 4>
__device__ __forceinline__ void multiply_rows_now(float (&s)[N / 2], const char* a, int a_panel,
                                                  const char* b, int b_panel) {
  wgmma_pin(s);
  wgmma_fence();
  multiply_rows<N, kPanels>(s, a, a_panel, b, b_panel);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_pin(s);
}

// O[64 x 256] (+)= P[64 x 16·K] · B[16·K x 256], P in registers, B in panels of 64 columns.
template <int K>
__device__ __forceinline__ void multiply_weights(float (&o)[128], const std::uint32_t (&p)[K][4],
                                                 const char* b, int b_panel, bool accumulate) {
  const std::uint64_t db = mn_major_descriptor(b, static_cast<std::uint32_t>(b_panel));
#pragma unroll
  for (int k = 0; k < K; ++k)
    Wgmma<256>::rs<1>(o, p[k], advance(db, k * 2048), k != 0 || accumulate);
}

// O += P · B, waited for.
template <int K>
__device__ __forceinline__ void add_weighted(float (&o)[128], const std::uint32_t (&p)[K][4],
                                             const char* b, int b_panel) {
  wgmma_pin(o);
  wgmma_fence();
  multiply_weights(o, p, b, b_panel, true);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_pin(o);
}

// sum + Σ of the products of eight pairs of BF16 numbers, in order.
__device__ __forceinline__ float dot_bf16(uint4 x, uint4 y, float sum) {
  const std::uint32_t xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(__uint_as_float(xs[i] << 16), __uint_as_float(ys[i] << 16), sum);
    sum = fmaf(__uint_as_float(xs[i] & 0xffff0000u), __uint_as_float(ys[i] & 0xffff0000u), sum);
  }
  return sum;
}

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The accumulator of N columns as the A operand of the next product.
template <int N>
__device__ __forceinline__ void pack_weights(std::uint32_t (&p)[N / 16][4],
                                             const float (&s)[N / 2]) {
#pragma unroll
  for (int k = 0; k < N / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) p[k][i] = pack_bf16(s[8 * k + 2 * i], s[8 * k + 2 * i + 1]);
}

// Running softmax of the lane's two rows: row r and r + 8 of its warp's 16.
struct Softmax {
  float top[2], sum[2];
};

// Scores to weights; returns by how much the earlier sums shrink.
template <int N>
__device__ __forceinline__ void weigh(float (&s)[N / 2], Softmax& m, float (&shrink)[2],
                                      float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = m.top[half];
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
      top = fmaxf(top, fmaxf(s[4 * j + 2 * half], s[4 * j + 2 * half + 1]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    const float base = top == -INFINITY ? 0.0f : top * scale_log2;
    shrink[half] = exp2_fast(m.top[half] * scale_log2 - base);
    m.top[half] = top;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = s[4 * j + 2 * half + e];
        x = exp2_fast(fmaf(x, scale_log2, -base));
        sum += x;
      }
    m.sum[half] = m.sum[half] * shrink[half] + sum;
  }
}

// A row's sum over the four lanes that share it.
__device__ __forceinline__ float whole_sum(const Softmax& m, int half) {
  float sum = m.sum[half];
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  return sum;
}

__device__ __forceinline__ void rescale(float (&o)[128], const float (&shrink)[2]) {
#pragma unroll
  for (int i = 0; i < 128; ++i) o[i] *= shrink[i / 2 % 2];
}

// Transposes a 4 x 4 matrix of registers across the four lanes of a quad.
__device__ __forceinline__ void quad_transpose(std::uint32_t (&v)[4]) {
  const bool odd = (threadIdx.x & 1) != 0, high = (threadIdx.x & 2) != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? v[i] : v[i + 1], 1);
    (odd ? v[i] : v[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t got = __shfl_xor_sync(0xffffffffu, high ? v[i] : v[i + 2], 2);
    (high ? v[i] : v[i + 2]) = got;
  }
}

// Columns [0, 32·kGroups) of two accumulator rows, times `scale`, to BF16 rows 16 bytes a lane.
// `row` is where the lane's first row begins, `row8` eight rows below; a null row is not written.
template <int kGroups, int kCount>
__device__ __forceinline__ void store_rows(const float (&o)[kCount], float scale, float scale8,
                                           __nv_bfloat16* row, __nv_bfloat16* row8) {
  const int c = threadIdx.x % 4;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    std::uint32_t a[4], b[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = 4 * (4 * g + i);
      a[i] = pack_bf16(o[d] * scale, o[d + 1] * scale);
      b[i] = pack_bf16(o[d + 2] * scale8, o[d + 3] * scale8);
    }
    quad_transpose(a);
    quad_transpose(b);
    const int column = 32 * g + 8 * c;
    if (row != nullptr)
      *reinterpret_cast<uint4*>(row + column) = make_uint4(a[0], a[1], a[2], a[3]);
    if (row8 != nullptr)
      *reinterpret_cast<uint4*>(row8 + column) = make_uint4(b[0], b[1], b[2], b[3]);
  }
}

// Zeroes rows [first, rows) of a tile of four 128-byte panels, by one warpgroup, for the tensor
// cores to read. What lies behind a document's end is another's, or nothing that was ever written.
__device__ __forceinline__ void zero_tail(char* tile, int panel, int first, int rows, int barrier) {
  const int pieces = (rows - first) * 32;  // 16-byte pieces
  for (int i = threadIdx.x % 128; i < pieces; i += 128)
    *reinterpret_cast<uint4*>(tile + (i / 8 % 4) * panel + (first + i / 32) * 128 + i % 8 * 16) =
        make_uint4(0, 0, 0, 0);
  fence_async_shared();
  named_barrier_sync(barrier, 128);
}

// A ring's place: which stage, and the parity of its current phase.
template <int kStages>
struct Ring {
  int stage = 0;
  unsigned phase = 0;
  __device__ __forceinline__ void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// A warp gives back a buffer that its matrix instructions read.
__device__ __forceinline__ void release(std::uint64_t* bar) {
  if (threadIdx.x % 32 == 0) mbarrier_arrive(bar);
}

// A tile of one head (or of a few, from `head` on); head −1: there is no more work.
struct Item {
  int begin, length, padded;  // of the document
  int row, head, steps;       // first row in the document; steps along the other dimension
};

// How a block's producer hands items to its two consuming warpgroups, one ahead.
struct ItemQueue {
  std::uint64_t full[2], empty[2];
  Item items[2];

  __device__ __forceinline__ void init() {
    for (int i = 0; i < 2; ++i) {
      mbarrier_init(&full[i], 1);
      mbarrier_init(&empty[i], 256);
    }
  }
  __device__ __forceinline__ void push(Ring<2>& ring, const Item& item) {
    mbarrier_wait(&empty[ring.stage], ring.phase ^ 1);
    items[ring.stage] = item;
    mbarrier_arrive(&full[ring.stage]);
    ring.next();
  }
  __device__ __forceinline__ Item pop(Ring<2>& ring) {
    mbarrier_wait(&full[ring.stage], ring.phase);
    const Item item = items[ring.stage];
    mbarrier_arrive(&empty[ring.stage]);
    ring.next();
    return item;
  }
};
__device__ __forceinline__ Item no_item() {
  return {0, 0, 0, 0, -1, 0};
}

// Item `item` of a kernel whose blocks hold kRows query rows of a head and walk keys by kKeys.
template <int kRows, int kKeys>
__device__ __forceinline__ Item query_item(const Span* spans, int heads, int item) {
  const Span span = spans[item / heads];
  const int n = (span.length + kRows - 1) / kRows;
  const int group = heads_together(n, heads);
  const int local = item - span.first * heads;
  const int rest = local % (n * group);
  const int query = (n - 1 - rest / group) * kRows;
  return {span.begin,
          span.length,
          span.padded,
          query,
          local / (n * group) * group + rest % group,
          (min(query + kRows, span.length) + kKeys - 1) / kKeys};
}

// Dynamic shared memory from the first address that swizzled tiles may begin at.
__device__ __forceinline__ char* tiles_of(char* raw) {
  return raw + (1024 - smem_address(raw) % 1024) % 1024;
}

// The roles of a block's three warpgroups: the first produces, the others consume(0) and
// consume(1), with registers that it gives up.
template <int kProducerRegisters, int kConsumerRegisters, class Produce, class Consume>
__device__ __forceinline__ void share_out(Produce&& produce, Consume&& consume) {
  // Through a shuffle, so that the compiler knows the roles to be uniform in a warp.
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (group == 0) {
    register_budget_lower<kProducerRegisters>();
    produce();
  } else {
    register_budget_raise<kConsumerRegisters>();
    consume(group - 1);
  }
}

// Boxes of `rows` rows and 64 columns of one head of [T, H, size], or of [T, size].
inline CUtensorMap head_map(const Tensor& t, int rows) {
  return make_tensor_map(TensorMapType::kBF16, t.data, {t.size(2), t.size(1), t.size(0)},
                         {t.stride(1), t.stride(0)}, {64, 1, rows}, TensorMapSwizzle::k128);
}
inline CUtensorMap row_map(const Tensor& t, int rows) {
  return make_tensor_map(TensorMapType::kBF16, t.data, {t.size(1), t.size(0)}, {t.stride(0)},
                         {64, rows}, TensorMapSwizzle::k128);
}

}  // namespace glmtune::ops::sm90
