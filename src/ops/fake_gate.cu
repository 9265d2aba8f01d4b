#include "ops/fake_gate.h"
#include "ops/kernel.cuh"

namespace glmtune::ops {
namespace {

__global__ void fake_gate_kernel(std::int32_t* ids, std::int64_t ids_stride, float* weights,
                                 std::int64_t weights_stride, std::int64_t tokens,
                                 FakeChoice choice, double noise) {
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t < tokens) choice.fill(t, noise, ids + t * ids_stride, weights + t * weights_stride);
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
