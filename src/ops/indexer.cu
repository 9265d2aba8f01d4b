// Index scores in plain CUDA, for any sizes, and the selection of the best keys.
#include <cuda_bf16.h>

#include "cuda/check.h"
#include "ops/indexer.h"
#include "ops/indexer_cuda.cuh"

namespace glmtune::ops {
namespace {

__device__ inline float load(const float* p) {
  return *p;
}
__device__ inline float load(const __nv_bfloat16* p) {
  return __bfloat162float(*p);
}

constexpr int kScoreThreads = 128;

// One block: scores of one query against kScoreThreads keys, a key a thread; q in shared memory.
template <class T>
__global__ void __launch_bounds__(kScoreThreads)
    score_rows(IndexScoreOperands o, const T* q, const T* k) {
  extern __shared__ float query[];
  const std::int64_t t = blockIdx.x;
  const std::int64_t visible = min(o.query_begin + t + 1, o.keys);
  if (static_cast<std::int64_t>(blockIdx.y) * kScoreThreads >= visible) return;
  for (int i = threadIdx.x; i < o.heads * o.size; i += kScoreThreads)
    query[i] = load(q + t * o.q_row + (i / o.size) * o.q_head + i % o.size);
  __syncthreads();
  for (std::int64_t s = static_cast<std::int64_t>(blockIdx.y) * kScoreThreads + threadIdx.x;
       s < visible; s += static_cast<std::int64_t>(gridDim.y) * kScoreThreads) {
    float sum = 0;
    for (int h = 0; h < o.heads; ++h) {
      float d = 0;
      for (int i = 0; i < o.size; ++i)
        d = fmaf(query[h * o.size + i], load(k + s * o.k_row + i), d);
      sum = fmaf(o.weights[t * o.weights_row + h], fmaxf(d * o.scale, 0.0f), sum);
    }
    o.scores[t * o.scores_row + s] = o.weight_scale * sum;
  }
}

constexpr int kTopkThreads = 512, kTopkWarps = kTopkThreads / 32;
constexpr int kBins = 2048;
constexpr unsigned kAll = 0xffffffffu;

// Order-preserving: larger score, larger key; −0.0 = +0.0; NaN below everything.
__device__ inline std::uint32_t order_key(float x) {
  if (x != x) return 0;
  const std::uint32_t u = __float_as_uint(x + 0.0f);
  return (u & 0x80000000u) != 0 ? ~u : u | 0x80000000u;
}

struct TopkOperands {
  const float* scores;
  std::uint32_t* mask;
  std::int32_t *indices, *counts;
  std::int64_t scores_row, mask_row, mask_words, indices_row, indices_size;
  std::int64_t keys, k, query_begin, index_base;
};

struct TopkShared {
  unsigned bins[kBins];
  int above[kTopkWarps], equal[kTopkWarps];
  unsigned digit, need;
};

__device__ inline int block_exclusive(int mine, const int* per_warp, int warp) {
  int sum = mine;
  for (int w = 0; w < warp; ++w) sum += per_warp[w];
  return sum;
}

// The key of rank `need` (1 = largest) among those that agree with `prefix` above bit `low + bits`;
// leaves in shared.digit the digit found and in shared.need the rank inside it.
__device__ void radix_pass(const float* row, int visible, std::uint32_t prefix, int low, int bits,
                           unsigned need, TopkShared& shared) {
  const int bins = 1 << bits;
  for (int i = threadIdx.x; i < bins; i += kTopkThreads) shared.bins[i] = 0;
  __syncthreads();
  const int high = low + bits;
  for (int s = threadIdx.x; s < visible; s += kTopkThreads) {
    const std::uint32_t key = order_key(row[s]);
    const bool match = high == 32 || (key >> (high % 32)) == (prefix >> (high % 32));
    if (match) atomicAdd(&shared.bins[(key >> low) & (bins - 1)], 1u);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    // From the largest digit down, 32 bins at a time.
    const int lane = threadIdx.x;
    unsigned before = 0;
    for (int top = bins; top > 0; top -= 32) {
      const unsigned mine = shared.bins[top - 1 - lane];
      unsigned sum = mine;
      for (int o = 1; o < 32; o *= 2) {
        const unsigned other = __shfl_up_sync(kAll, sum, o);
        if (lane >= o) sum += other;
      }
      const unsigned hit = __ballot_sync(kAll, before + sum >= need);
      if (hit != 0) {
        const int winner = __ffs(static_cast<int>(hit)) - 1;
        if (lane == winner) {
          shared.digit = static_cast<unsigned>(top - 1 - lane);
          shared.need = need - (before + sum - mine);
        }
        break;
      }
      before += __shfl_sync(kAll, sum, 31);
    }
  }
  __syncthreads();
}

// One block a query. The threshold key by three radix passes (11 + 11 + 10 bits), then one walk in
// index order: everything above the threshold and the first keys equal to it.
__global__ void __launch_bounds__(kTopkThreads) select_rows(TopkOperands o) {
  __shared__ TopkShared shared;
  const std::int64_t t = blockIdx.x;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int visible = static_cast<int>(min(o.query_begin + t + 1, o.keys));
  const int chosen = static_cast<int>(min(static_cast<std::int64_t>(visible), o.k));
  const float* row = o.scores + t * o.scores_row;

  std::uint32_t threshold = 0;
  unsigned ties = 0;  // how many keys equal to the threshold are taken
  const bool all = visible <= o.k;
  if (!all) {
    unsigned need = static_cast<unsigned>(chosen);
    for (int pass = 0; pass < 3; ++pass) {
      const int low = pass == 0 ? 21 : pass == 1 ? 10 : 0;
      radix_pass(row, visible, threshold, low, pass == 2 ? 10 : 11, need, shared);
      threshold |= shared.digit << low;
      need = shared.need;
      __syncthreads();
    }
    ties = need;
  }

  // Every warp walks a run of whole words; first it counts, so that it knows where it writes.
  const int words = (visible + 31) / 32;
  const int per_warp = (words + kTopkWarps - 1) / kTopkWarps;
  const int first = min(words, warp * per_warp), last = min(words, first + per_warp);
  int above = 0, equal = 0;
  for (int w = first; w < last; ++w) {
    const int s = w * 32 + lane;
    const std::uint32_t key = s < visible && !all ? order_key(row[s]) : 0;
    above += __popc(__ballot_sync(kAll, s < visible && (all || key > threshold)));
    equal += __popc(__ballot_sync(kAll, s < visible && !all && key == threshold));
  }
  if (lane == 0) {
    shared.above[warp] = above;
    shared.equal[warp] = equal;
  }
  __syncthreads();
  const int above_before = block_exclusive(0, shared.above, warp);
  unsigned equal_before = static_cast<unsigned>(block_exclusive(0, shared.equal, warp));
  int position = above_before + static_cast<int>(min(equal_before, ties));
  std::int32_t* indices = o.indices != nullptr ? o.indices + t * o.indices_row : nullptr;
  std::uint32_t* mask = o.mask != nullptr ? o.mask + t * o.mask_row : nullptr;
  for (int w = first; w < last; ++w) {
    const int s = w * 32 + lane;
    const std::uint32_t key = s < visible && !all ? order_key(row[s]) : 0;
    const unsigned over = __ballot_sync(kAll, s < visible && (all || key > threshold));
    const unsigned same = __ballot_sync(kAll, s < visible && !all && key == threshold);
    const unsigned below = (1u << lane) - 1u;
    const unsigned rank = equal_before + static_cast<unsigned>(__popc(same & below));
    const bool take = ((over >> lane) & 1u) != 0 || (((same >> lane) & 1u) != 0 && rank < ties);
    const unsigned word = __ballot_sync(kAll, take);
    if (mask != nullptr && lane == 0) mask[w] = word;
    if (indices != nullptr && take)
      indices[position + __popc(word & below)] = static_cast<std::int32_t>(s + o.index_base);
    position += __popc(word);
    equal_before += static_cast<unsigned>(__popc(same));
  }
  if (mask != nullptr)
    for (std::int64_t w = words + threadIdx.x; w < o.mask_words; w += kTopkThreads) mask[w] = 0;
  if (indices != nullptr)
    for (std::int64_t i = chosen + threadIdx.x; i < o.indices_size; i += kTopkThreads)
      indices[i] = -1;
  if (o.counts != nullptr && threadIdx.x == 0) o.counts[t] = chosen;
}

}  // namespace

void run_cuda(Context& ctx, const IndexScores& op, Tensor) {
  const auto stream = static_cast<cudaStream_t>(ctx.stream);
  const std::int64_t queries = op.q.size(0), keys = op.k.size(0);
  if (queries == 0 || keys == 0) return;
  const IndexScoreOperands o{.scores = op.scores.as<float>(),
                             .weights = op.weights.as<float>(),
                             .scores_row = op.scores.stride(0),
                             .weights_row = op.weights.stride(0),
                             .q_row = op.q.stride(0),
                             .q_head = op.q.stride(1),
                             .k_row = op.k.stride(0),
                             .queries = queries,
                             .keys = keys,
                             .query_begin = op.query_begin,
                             .heads = static_cast<int>(op.q.size(1)),
                             .size = static_cast<int>(op.q.size(2)),
                             .scale = static_cast<float>(op.scale),
                             .weight_scale = static_cast<float>(op.weight_scale)};
  if (sm90::index_scores(stream, op, o)) return;
  const std::size_t shared = sizeof(float) * static_cast<std::size_t>(o.heads * o.size);
  const auto launch = [&]<class T>(T) {
    CUDA_CHECK(cudaFuncSetAttribute(score_rows<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared)));
    const std::int64_t columns = (keys + kScoreThreads - 1) / kScoreThreads;
    const dim3 grid(static_cast<unsigned>(queries),
                    static_cast<unsigned>(std::min<std::int64_t>(columns, 32768)));
    score_rows<T><<<grid, kScoreThreads, shared, stream>>>(o, op.q.as<T>(), op.k.as<T>());
    CUDA_CHECK(cudaGetLastError());
  };
  if (op.q.dtype == DType::kF32)
    launch(float{});
  else if (op.q.dtype == DType::kBF16)
    launch(__nv_bfloat16{});
  else
    fail(cat("IndexScores on CUDA works on F32 and BF16, not on ", name_of(op.q.dtype)));
}

void run_cuda(Context& ctx, const TopkSelect& op, Tensor) {
  const auto stream = static_cast<cudaStream_t>(ctx.stream);
  const std::int64_t queries = op.scores.size(0), keys = op.scores.size(1);
  if (op.scores.dtype != DType::kF32)
    fail(cat("TopkSelect on CUDA works on F32 scores, not on ", name_of(op.scores.dtype)));
  if (queries == 0) return;
  const TopkOperands o{.scores = op.scores.as<float>(),
                       .mask = op.mask.defined() ? op.mask.as<std::uint32_t>() : nullptr,
                       .indices = op.indices.defined() ? op.indices.as<std::int32_t>() : nullptr,
                       .counts = op.counts.defined() ? op.counts.as<std::int32_t>() : nullptr,
                       .scores_row = op.scores.stride(0),
                       .mask_row = op.mask.defined() ? op.mask.stride(0) : 0,
                       .mask_words = op.mask.defined() ? op.mask.size(1) : 0,
                       .indices_row = op.indices.defined() ? op.indices.stride(0) : 0,
                       .indices_size = op.indices.defined() ? op.indices.size(1) : 0,
                       .keys = keys,
                       .k = op.k,
                       .query_begin = op.query_begin,
                       .index_base = op.index_base};
  select_rows<<<static_cast<unsigned>(queries), kTopkThreads, 0, stream>>>(o);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace glmtune::ops
