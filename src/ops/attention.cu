// Which CUDA version of dense attention runs: tensor cores for BF16 with the released models' head
// sizes, the generic kernels for everything else.
#include "cuda/check.h"
#include "cuda/tensor_map.h"
#include "ops/attention_cuda.cuh"

namespace glmtune::ops {

namespace sm90 {

int multiprocessors() {
  int device = 0, count = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

namespace {

// Whether the copy engine can address [rows, heads, size] or [rows, size].
bool addressable(const Tensor& t) {
  return t.rank == 3 ? tensor_map_possible(t.data, {t.stride(0) * 2, t.stride(1) * 2})
                     : tensor_map_possible(t.data, {t.stride(0) * 2});
}

template <class... Tensors>
bool all_addressable(const Tensors&... tensors) {
  return (addressable(tensors) && ...);
}

bool takes(const CausalAttention& op) {
  return sizes_fit(op.q, op.k_nope, op.k_rope, op.v) && op.scale > 0 &&
         all_addressable(op.out, op.q, op.k_nope, op.k_rope, op.v);
}

bool takes(const CausalAttentionBackward& op) {
  return sizes_fit(op.q, op.k_nope, op.k_rope, op.v) && op.scale > 0 &&
         all_addressable(op.dq, op.dk_nope, op.dk_rope, op.dv, op.dout, op.out, op.q, op.k_nope,
                         op.k_rope, op.v);
}

}  // namespace
}  // namespace sm90

void run_cuda(Context& ctx, const CausalAttention& op, Tensor workspace) {
  const auto stream = static_cast<cudaStream_t>(ctx.stream);
  if (op.documents.count == 0) return;
  if (sm90::takes(op))
    sm90::forward(stream, op, workspace);
  else
    generic::forward(stream, op);
}

void run_cuda(Context& ctx, const CausalAttentionBackward& op, Tensor workspace) {
  const auto stream = static_cast<cudaStream_t>(ctx.stream);
  if (op.documents.count == 0) return;
  if (sm90::takes(op))
    sm90::backward(stream, op, workspace);
  else
    generic::backward(stream, op, workspace.as<float>());
}

}  // namespace glmtune::ops
