// Which CUDA version of gathered attention runs: tensor cores for BF16 with the released models'
// sizes, the generic kernels for everything else.
#include "cuda/check.h"
#include "cuda/tensor_map.h"
#include "ops/attention_cuda.cuh"

namespace glmtune::ops {
namespace {

bool addressable(const Tensor& t) {
  return t.rank == 3 ? tensor_map_possible(t.data, {t.stride(0) * 2, t.stride(1) * 2})
                     : tensor_map_possible(t.data, {t.stride(0) * 2});
}

template <class Op, class... Tensors>
bool takes(const Op& op, const Tensors&... tensors) {
  return sm90::sparse_sizes_fit(op.q_latent, op.k_rope, op.indices) && op.scale > 0 &&
         (addressable(tensors) && ...);
}

}  // namespace

void run_cuda(Context& ctx, const SparseMla& op, Tensor) {
  const auto stream = static_cast<cudaStream_t>(ctx.stream);
  if (takes(op, op.out_latent, op.q_latent, op.q_rope, op.latent, op.k_rope))
    sm90::forward(stream, op);
  else
    generic::forward(stream, op);
}

void run_cuda(Context& ctx, const SparseMlaBackward& op, Tensor workspace) {
  const auto stream = static_cast<cudaStream_t>(ctx.stream);
  if (takes(op, op.dq_latent, op.dq_rope, op.dlatent, op.dk_rope, op.dout_latent, op.out_latent,
            op.q_latent, op.q_rope, op.latent, op.k_rope))
    sm90::backward(stream, op, workspace);
  else
    generic::backward(stream, op, workspace.as<float>());
}

}  // namespace glmtune::ops
