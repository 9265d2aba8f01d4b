#include "ops/fake_gate.h"
#include "ops/kernel.cuh"

namespace glmtune::ops {
namespace {

__global__ void fake_gate_kernel(std::int32_t* ids, std::int64_t ids_stride, float* weights,
                                 std::int64_t weights_stride, std::int64_t tokens,
                                 FakeChoice choice, double noise) {
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= tokens) return;
  ids += t * ids_stride;
  weights += t * weights_stride;
  const std::int64_t K = choice.chosen;
  if (noise == 0) {
    for (std::int64_t j = 0; j < K; ++j) {
      ids[j] = static_cast<std::int32_t>((t * K + j) % choice.experts);
      weights[j] = 1.0f / static_cast<float>(K);
    }
    return;
  }
  std::int64_t score = 0, last = -1, sum = 0;
  for (std::int64_t j = 0; j < K; ++j) {
    last = choice.next(t, score, last);
    ids[j] = static_cast<std::int32_t>(last);
    sum += choice.weight(t, j);
  }
  for (std::int64_t j = 0; j < K; ++j)
    weights[j] = static_cast<float>((1 - noise) / static_cast<double>(K) +
                                    noise * static_cast<double>(choice.weight(t, j)) /
                                        static_cast<double>(sum));
}

}  // namespace

void run_cuda(Context& ctx, const FakeGate& op, Tensor) {
  const std::int64_t tokens = op.weights.size(0);
  if (tokens == 0) return;
  if (op.weights.dtype != DType::kF32)
    fail(cat("FakeGate: weights are ", name_of(op.weights.dtype), ", expected F32 on a GPU"));
  constexpr int kThreads = 128;
  fake_gate_kernel<<<static_cast<unsigned>(ceil_div(tokens, kThreads)), kThreads, 0,
                     stream_of(ctx)>>>(op.expert_ids.as<std::int32_t>(), op.expert_ids.stride(0),
                                       op.weights.as<float>(), op.weights.stride(0), tokens,
                                       fake_choice(op), op.noise);
  CHECK_LAUNCH();
}

}  // namespace glmtune::ops
