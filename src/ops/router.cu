// One warp chooses for one token; each lane holds every 32nd expert.
#include "ops/kernel.cuh"
#include "ops/radix_sort.cuh"
#include "ops/router.h"

namespace glmtune::ops {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kMaxChosen = 32;
constexpr int kMaxGroups = 32;

struct RouterSettings {
  int experts, chosen, groups, top_groups;
  std::int64_t logits_stride, scores_stride, ids_stride, weights_stride;
  bool normalize, replay;
  float scaling;
};

// The warp's best (value, index): larger value first, then lower index. NaN counts as −inf, and
// something is always chosen.
__device__ __forceinline__ void warp_best(float& value, int& index) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    const float v = __shfl_xor_sync(0xffffffffu, value, o);
    const int i = __shfl_xor_sync(0xffffffffu, index, o);
    if (v > value || (v == value && i < index)) {
      value = v;
      index = i;
    }
  }
}

template <int kPerLane>
__global__ void __launch_bounds__(kThreads)
    router_topk_kernel(float* scores, std::int32_t* expert_ids, float* weights, const float* logits,
                       const float* bias, std::int64_t tokens, RouterSettings s) {
  __shared__ float group_choice[kWarps][kPerLane * 32];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
  if (t >= tokens) return;
  float score[kPerLane], choice[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int e = i * 32 + lane;
    score[i] = 0;
    choice[i] = -INFINITY;
    if (e < s.experts) {
      score[i] = 1.0f / (1.0f + expf(-logits[t * s.logits_stride + e]));
      scores[t * s.scores_stride + e] = score[i];
      if (!s.replay) {
        choice[i] = score[i] + bias[e];
        if (!(choice[i] > -INFINITY)) choice[i] = -INFINITY;
      }
    }
  }
  if (!s.replay && s.groups > 1) {
    // Lane g rates group g by its two best, then the groups are ranked among the lanes.
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (i * 32 + lane < s.experts) group_choice[warp][i * 32 + lane] = choice[i];
    __syncwarp();
    const int size = s.experts / s.groups;
    float rating = -INFINITY;
    if (lane < s.groups) {
      float first = -INFINITY, second = -INFINITY;
      for (int e = lane * size; e < (lane + 1) * size; ++e) {
        const float v = group_choice[warp][e];
        second = fmaxf(second, fminf(first, v));
        first = fmaxf(first, v);
      }
      rating = size > 1 ? first + second : first;
    }
    int better = 0;
    for (int g = 0; g < s.groups; ++g) {
      const float other = __shfl_sync(0xffffffffu, rating, g);
      better += other > rating || (other == rating && g < lane) ? 1 : 0;
    }
    const unsigned kept = __ballot_sync(0xffffffffu, lane < s.groups && better < s.top_groups);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int e = i * 32 + lane;
      if (e < s.experts && (kept >> (e / size) & 1) == 0) choice[i] = -INFINITY;
    }
  }
  int chosen = 0;  // lane j: the token's j-th expert
  float chosen_score = 0;
  if (s.replay) {
    if (lane < s.chosen) chosen = expert_ids[t * s.ids_stride + lane];
  } else {
    unsigned taken = 0;
    for (int j = 0; j < s.chosen; ++j) {
      float best = -INFINITY;
      int index = 0x7fffffff;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        const int e = i * 32 + lane;
        if (e < s.experts && (taken >> i & 1) == 0 && (choice[i] > best || index == 0x7fffffff)) {
          best = choice[i];
          index = e;
        }
      }
      warp_best(best, index);
      if (index % 32 == lane) taken |= 1u << (index / 32);
      if (lane == j) chosen = index;
    }
    if (lane < s.chosen) expert_ids[t * s.ids_stride + lane] = chosen;
  }
  __syncwarp();  // orders the scores above before the reads below
  if (lane < s.chosen) chosen_score = scores[t * s.scores_stride + chosen];
  float total = 1;
  if (s.normalize) {
    total = 1e-20f;
    float sum = 0;
    for (int j = 0; j < s.chosen; ++j) sum += __shfl_sync(0xffffffffu, chosen_score, j);
    total += sum;
  }
  if (lane < s.chosen) weights[t * s.weights_stride + lane] = s.scaling * chosen_score / total;
}

__global__ void __launch_bounds__(kThreads)
    router_topk_backward_kernel(float* dlogits, const float* dweights, const float* scores,
                                const std::int32_t* expert_ids, std::int64_t tokens,
                                std::int64_t dlogits_stride, std::int64_t dweights_stride,
                                RouterSettings s) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
  if (t >= tokens) return;
  float* out = dlogits + t * dlogits_stride;
  for (int e = lane; e < s.experts; e += 32) out[e] = 0;
  __syncwarp();
  int id = 0;
  float score = 0, grad = 0;
  if (lane < s.chosen) {
    id = expert_ids[t * s.ids_stride + lane];
    score = scores[t * s.scores_stride + id];
    grad = s.scaling * dweights[t * dweights_stride + lane];
  }
  if (s.normalize) {
    float total = 1e-20f, dot = 0;
    for (int j = 0; j < s.chosen; ++j) {
      total += __shfl_sync(0xffffffffu, score, j);
      dot += __shfl_sync(0xffffffffu, score * grad, j);
    }
    grad = (grad - dot / total) / total;
  }
  if (lane < s.chosen) out[id] = grad * score * (1.0f - score);
}

__global__ void __launch_bounds__(256)
    expert_places_kernel(std::int32_t* offsets, std::int32_t* row_of_slot,
                         std::int32_t* slot_of_row, const std::int32_t* keys,
                         const std::int32_t* slots, int rows, int experts, int chosen,
                         std::int64_t row_stride) {
  const int r = static_cast<int>(blockIdx.x) * 256 + static_cast<int>(threadIdx.x);
  if (r >= rows) return;
  const std::int32_t slot = slots[r];
  slot_of_row[r] = slot;
  const int t = slot / chosen;
  row_of_slot[t * row_stride + (slot - t * chosen)] = r;
  // Rows at a border between experts write the offsets of all experts in between.
  const int before = r == 0 ? -1 : keys[r - 1], here = keys[r];
  for (int e = before + 1; e <= here; ++e) offsets[e] = r;
  if (r == rows - 1)
    for (int e = here + 1; e <= experts; ++e) offsets[e] = rows;
}

__global__ void add_expert_load_kernel(std::int64_t* load, const std::int32_t* offsets,
                                       int experts) {
  const int e = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (e < experts) load[e] += offsets[e + 1] - offsets[e];
}

__global__ void __launch_bounds__(256)
    update_router_bias_kernel(float* bias, const std::int64_t* load, const double* gate,
                              int experts, double factor) {
  if (gate != nullptr && isnan(*gate)) return;
  __shared__ double shared[8];
  double sum = 0;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += 256)
    sum += static_cast<double>(load[e]);
  const double mean = block_sum<256>(sum, shared) / experts;
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += 256) {
    const double gap = mean - static_cast<double>(load[e]);
    const double sign = gap > 0 ? 1 : gap < 0 ? -1 : 0;
    bias[e] = static_cast<float>(static_cast<double>(bias[e]) + factor * sign);
  }
}

void expect_f32(const char* op, const Tensor& t) {
  if (t.dtype != DType::kF32)
    fail(cat(op, ": ", name_of(t.dtype), " on a CUDA device; F32 is expected"));
}

}  // namespace

void run_cuda(Context& ctx, const RouterTopk& op, Tensor) {
  const std::int64_t tokens = op.logits.size(0), experts = op.logits.size(1);
  if (tokens == 0) return;
  expect_f32("RouterTopk", op.logits);
  const RouterSettings s{.experts = static_cast<int>(experts),
                         .chosen = static_cast<int>(op.expert_ids.size(1)),
                         .groups = static_cast<int>(op.n_group),
                         .top_groups = static_cast<int>(op.topk_group),
                         .logits_stride = op.logits.stride(0),
                         .scores_stride = op.scores.stride(0),
                         .ids_stride = op.expert_ids.stride(0),
                         .weights_stride = op.weights.stride(0),
                         .normalize = op.norm_topk_prob,
                         .replay = op.replay,
                         .scaling = static_cast<float>(op.scaling)};
  if (s.chosen > kMaxChosen || s.groups > kMaxGroups || experts > 1024)
    fail(cat("RouterTopk: ", s.chosen, " of ", experts, " experts in ", s.groups,
             " groups on a CUDA device; at most ", kMaxChosen, " of 1024 in ", kMaxGroups));
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(ceil_div(tokens, kWarps)), kThreads, 0, stream_of(ctx)>>>(
        op.scores.as<float>(), op.expert_ids.as<std::int32_t>(), op.weights.as<float>(),
        op.logits.as<const float>(), op.bias.as<const float>(), tokens, s);
    CHECK_LAUNCH();
  };
  if (experts <= 64)
    launch(router_topk_kernel<2>);
  else if (experts <= 256)
    launch(router_topk_kernel<8>);
  else
    launch(router_topk_kernel<32>);
}

void run_cuda(Context& ctx, const RouterTopkBackward& op, Tensor) {
  const std::int64_t tokens = op.dlogits.size(0);
  if (tokens == 0) return;
  expect_f32("RouterTopkBackward", op.dlogits);
  RouterSettings s{};
  s.experts = static_cast<int>(op.dlogits.size(1));
  s.chosen = static_cast<int>(op.expert_ids.size(1));
  s.scores_stride = op.scores.stride(0);
  s.ids_stride = op.expert_ids.stride(0);
  s.normalize = op.norm_topk_prob;
  s.scaling = static_cast<float>(op.scaling);
  if (s.chosen > kMaxChosen)
    fail(cat("RouterTopkBackward: ", s.chosen, " experts a token on a CUDA device; at most ",
             kMaxChosen));
  router_topk_backward_kernel<<<static_cast<unsigned>(ceil_div(tokens, kWarps)), kThreads, 0,
                                stream_of(ctx)>>>(
      op.dlogits.as<float>(), op.dweights.as<const float>(), op.scores.as<const float>(),
      op.expert_ids.as<const std::int32_t>(), tokens, op.dlogits.stride(0), op.dweights.stride(0),
      s);
  CHECK_LAUNCH();
}

void run_cuda(Context& ctx, const ExpertSort& op, Tensor workspace) {
  const std::int64_t experts = op.offsets.size(0) - 1, rows = op.expert_ids.count();
  if (rows == 0) {
    CUDA_CHECK(cudaMemsetAsync(op.offsets.data, 0, op.offsets.bytes(), stream_of(ctx)));
    return;
  }
  check(op.expert_ids.contiguous(), "ExpertSort: expert_ids must be dense on a CUDA device");
  const SortedKeys sorted = radix_sort(stream_of(ctx), op.expert_ids.as<const std::int32_t>(), rows,
                                       experts, workspace.data);
  expert_places_kernel<<<static_cast<unsigned>(ceil_div(rows, 256)), 256, 0, stream_of(ctx)>>>(
      op.offsets.as<std::int32_t>(), op.row_of_slot.as<std::int32_t>(),
      op.slot_of_row.as<std::int32_t>(), sorted.keys, sorted.index, static_cast<int>(rows),
      static_cast<int>(experts), static_cast<int>(op.expert_ids.size(1)), op.row_of_slot.stride(0));
  CHECK_LAUNCH();
}

void run_cuda(Context& ctx, const AddExpertLoad& op, Tensor) {
  const auto experts = static_cast<int>(op.load.size(0));
  add_expert_load_kernel<<<static_cast<unsigned>(ceil_div(experts, 128)), 128, 0, stream_of(ctx)>>>(
      op.load.as<std::int64_t>(), op.offsets.as<const std::int32_t>(), experts);
  CHECK_LAUNCH();
}

void run_cuda(Context& ctx, const UpdateRouterBias& op, Tensor) {
  update_router_bias_kernel<<<1, 256, 0, stream_of(ctx)>>>(
      op.bias.as<float>(), op.load.as<const std::int64_t>(),
      op.gate.defined() ? op.gate.as<const double>() : nullptr, static_cast<int>(op.bias.size(0)),
      op.factor);
  CHECK_LAUNCH();
}

}  // namespace glmtune::ops
