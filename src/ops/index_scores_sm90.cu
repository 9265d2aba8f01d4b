// Index scores on sm_90a: BF16, 32 heads of 128.
//
// A block takes 8 queries (8 x 32 heads = 256 columns) and walks a run of keys, 128 at a time: two
// warpgroups of 64 keys each multiply keys by all 256 query heads in one product and reduce
// Σ_h w·ReLU(·) in registers while the other multiplies. Scores leave in fp32.
#include "cuda/check.h"
#include "cuda/sm90.cuh"
#include "cuda/sm90_wgmma.cuh"
#include "cuda/tensor_map.h"
#include "ops/indexer_cuda.cuh"

namespace glmtune::ops::sm90 {

using namespace glmtune::sm90;

namespace {

constexpr int kQueries = 8, kHeads = 32, kSize = 128, kKeys = 128, kStages = 4;
constexpr int kColumns = kQueries * kHeads;
constexpr int kRun = 4096;  // keys a block
constexpr int kThreads = 384;
constexpr int kQueryPanel = kColumns * 128, kKeyPanel = kKeys * 128;
constexpr int kQueryBytes = 2 * kQueryPanel, kKeyBytes = 2 * kKeyPanel;
constexpr int kWeightOffset = kQueryBytes + kStages * kKeyBytes;
constexpr int kBarrierOffset = kWeightOffset + kColumns * 4;
constexpr int kSharedBytes = kBarrierOffset + 256 + 1024;

struct Barriers {
  std::uint64_t q_full, k_full[kStages], k_empty[kStages];
};

__device__ __forceinline__ void consume(const IndexScoreOperands& o, char* smem, Barriers& bar,
                                        std::int64_t first_query, int first_key, int steps,
                                        int group) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32, c = lane % 4;
  const float* weights = reinterpret_cast<const float*>(smem + kWeightOffset);
  // Column 8j + 2c + e belongs to query j / 4, head 8(j % 4) + 2c + e.
  float s[128];
  const bool low = (c & 1) == 0, left = (c & 2) == 0;
  mbarrier_wait(&bar.q_full, 0);
  for (int n = 0; n < steps; ++n) {
    const int stage = n % kStages;
    mbarrier_wait(&bar.k_full[stage], static_cast<unsigned>(n / kStages) & 1u);
    wgmma_pin(s);
    wgmma_fence();
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const std::uint64_t a = k_major_descriptor(smem + kQueryBytes + stage * kKeyBytes +
                                                 p * kKeyPanel + group * 64 * 128);
      const std::uint64_t b = k_major_descriptor(smem + p * kQueryPanel);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        Wgmma<256>::ss<0, 0>(s, advance(a, k * 32), advance(b, k * 32), (p | k) != 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_pin(s);
    if (lane == 0) mbarrier_arrive(&bar.k_empty[stage]);
    // Sums of this lane's columns: [query][row, row + 8].
    float sum[kQueries][2];
#pragma unroll
    for (int t = 0; t < kQueries; ++t) {
      sum[t][0] = sum[t][1] = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 w = *reinterpret_cast<const float2*>(weights + 32 * t + 8 * j + 2 * c);
        const int d = 4 * (4 * t + j);
        sum[t][0] = fmaf(w.x, fmaxf(s[d], 0.0f), sum[t][0]);
        sum[t][0] = fmaf(w.y, fmaxf(s[d + 1], 0.0f), sum[t][0]);
        sum[t][1] = fmaf(w.x, fmaxf(s[d + 2], 0.0f), sum[t][1]);
        sum[t][1] = fmaf(w.y, fmaxf(s[d + 3], 0.0f), sum[t][1]);
      }
    }
    // Across the quad each lane ends with the sums of queries 2c and 2c + 1.
    const std::int64_t key = first_key + n * kKeys + group * 64 + warp * 16 + lane / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float four[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float mine = left ? sum[i][half] : sum[4 + i][half];
        const float other = left ? sum[4 + i][half] : sum[i][half];
        four[i] = mine + __shfl_xor_sync(0xffffffffu, other, 2);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float mine = low ? four[i] : four[2 + i];
        const float other = low ? four[2 + i] : four[i];
        const float total = mine + __shfl_xor_sync(0xffffffffu, other, 1);
        // left: queries 0-3; low: the first two of them.
        const std::int64_t t = first_query + (left ? 0 : 4) + (low ? 0 : 2) + i;
        const std::int64_t at = key + 8 * half;
        if (t < o.queries && at < o.keys && at <= o.query_begin + t)
          o.scores[t * o.scores_row + at] = total;
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    scores_kernel(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                  const IndexScoreOperands o) {
  extern __shared__ char raw[];
  // The last queries see most keys: they come first.
  const std::int64_t first_query =
      (static_cast<std::int64_t>(gridDim.x) - 1 - blockIdx.x) * kQueries;
  const auto first_key = static_cast<int>(blockIdx.y) * kRun;
  const std::int64_t visible = min(o.keys, o.query_begin + min(first_query + kQueries, o.queries));
  if (first_key >= visible) return;
  const int steps = static_cast<int>(
      (min(visible - first_key, static_cast<std::int64_t>(kRun)) + kKeys - 1) / kKeys);
  char* smem = raw + (1024 - smem_address(raw) % 1024) % 1024;
  Barriers& bar = *reinterpret_cast<Barriers*>(smem + kBarrierOffset);
  if (threadIdx.x == 0) {
    mbarrier_init(&bar.q_full, 1);
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(&bar.k_full[i], 1);
      mbarrier_init(&bar.k_empty[i], 8);
    }
    fence_mbarrier_init();
  }
  // Both scales are positive or not, but only the inner one must stay inside the ReLU: its size
  // moves into the weights.
  float* weights = reinterpret_cast<float*>(smem + kWeightOffset);
  for (int i = threadIdx.x; i < kColumns; i += kThreads) {
    const std::int64_t t = first_query + i / kHeads;
    weights[i] = t < o.queries
                     ? o.weights[t * o.weights_row + i % kHeads] * (o.scale * o.weight_scale)
                     : 0.0f;
  }
  __syncthreads();
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (group == 0) {
    register_budget_lower<24>();
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect(&bar.q_full, kQueryBytes);
      for (int p = 0; p < 2; ++p)
        tma_load_3d(smem + p * kQueryPanel, &q, &bar.q_full, p * 64, 0,
                    static_cast<int>(first_query));
      for (int n = 0; n < steps; ++n) {
        const int stage = n % kStages;
        mbarrier_wait(&bar.k_empty[stage], (static_cast<unsigned>(n / kStages) & 1u) ^ 1u);
        mbarrier_arrive_expect(&bar.k_full[stage], kKeyBytes);
        for (int p = 0; p < 2; ++p)
          tma_load_2d(smem + kQueryBytes + stage * kKeyBytes + p * kKeyPanel, &k,
                      &bar.k_full[stage], p * 64, first_key + n * kKeys);
      }
    }
  } else {
    register_budget_raise<240>();
    consume(o, smem, bar, first_query, first_key, steps, group - 1);
  }
}

}  // namespace

bool index_scores(cudaStream_t stream, const IndexScores& op, const IndexScoreOperands& o) {
  if (op.q.dtype != DType::kBF16 || o.heads != kHeads || o.size != kSize || !(o.scale > 0) ||
      !tensor_map_possible(op.q.data, {o.q_row * 2, o.q_head * 2}) ||
      !tensor_map_possible(op.k.data, {o.k_row * 2}))
    return false;
  const CUtensorMap q =
      make_tensor_map(TensorMapType::kBF16, op.q.data, {kSize, kHeads, o.queries},
                      {o.q_head, o.q_row}, {64, kHeads, kQueries}, TensorMapSwizzle::k128);
  const CUtensorMap k = make_tensor_map(TensorMapType::kBF16, op.k.data, {kSize, o.keys}, {o.k_row},
                                        {64, kKeys}, TensorMapSwizzle::k128);
  CUDA_CHECK(cudaFuncSetAttribute(scores_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kSharedBytes));
  const dim3 grid(static_cast<unsigned>((o.queries + kQueries - 1) / kQueries),
                  static_cast<unsigned>((o.keys + kRun - 1) / kRun));
  scores_kernel<<<grid, kThreads, kSharedBytes, stream>>>(q, k, o);
  CUDA_CHECK(cudaGetLastError());
  return true;
}

}  // namespace glmtune::ops::sm90
