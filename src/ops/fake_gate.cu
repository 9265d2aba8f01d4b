#include "ops/fake_gate.h"
#include "ops/kernel.cuh"

namespace glmtune::ops {
namespace {

__global__ void fake_gate_kernel(std::int32_t* ids, std::int64_t ids_stride, float* weights,
                                 std::int64_t weights_stride, std::int64_t tokens,
                                 FakeChoice choice, double noise) {
  extern __shared__ std::int32_t favours[];  // [E]
  if (noise != 0)
    for (std::int64_t e = threadIdx.x; e < choice.experts; e += blockDim.x)
      favours[e] = choice.favour(e);
  __syncthreads();
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t < tokens)
    choice.fill(t, noise, favours, ids + t * ids_stride, weights + t * weights_stride);
}

}  // namespace

void run_cuda(Context& ctx, const FakeGate& op, Tensor) {
  const std::int64_t tokens = op.weights.size(0);
  if (tokens == 0) return;
  if (op.weights.dtype != DType::kF32)
    fail(cat("FakeGate: weights are ", name_of(op.weights.dtype), ", expected F32 on a GPU"));
  constexpr int kThreads = 128;
  constexpr std::int64_t kMostExperts = 12288;  // in 48 KiB of shared memory
  if (op.experts > kMostExperts)
    fail(cat("FakeGate: ", op.experts, " experts, at most ", kMostExperts, " on a GPU"));
  const auto shared = static_cast<unsigned>(op.experts) * sizeof(std::int32_t);
  fake_gate_kernel<<<static_cast<unsigned>(ceil_div(tokens, kThreads)), kThreads, shared,
                     stream_of(ctx)>>>(op.expert_ids.as<std::int32_t>(), op.expert_ids.stride(0),
                                       op.weights.as<float>(), op.weights.stride(0), tokens,
                                       fake_choice(op), op.noise);
  CHECK_LAUNCH();
}

}  // namespace glmtune::ops
