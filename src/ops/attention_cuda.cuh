#pragma once
// The CUDA versions behind ops/attention.h: a generic one for any head sizes and a tensor-core one
// (sm90) for the released models' sizes in BF16. Only .cu files include this.
#include <cuda_runtime_api.h>

#include "ops/attention_sm90.h"
#include "ops/sparse_mla_sm90.h"

namespace glmtune::ops::generic {

void forward(cudaStream_t stream, const CausalAttention& op);
void forward(cudaStream_t stream, const SparseMla& op);
// `delta` [H, T]: scratch.
void backward(cudaStream_t stream, const CausalAttentionBackward& op, float* delta);
void backward(cudaStream_t stream, const SparseMlaBackward& op, float* delta);

}  // namespace glmtune::ops::generic

namespace glmtune::ops::sm90 {

void forward(cudaStream_t stream, const CausalAttention& op, Tensor workspace);
void backward(cudaStream_t stream, const CausalAttentionBackward& op, Tensor workspace);
void forward(cudaStream_t stream, const SparseMla& op);
void backward(cudaStream_t stream, const SparseMlaBackward& op, Tensor workspace);
int multiprocessors();  // of the current device

}  // namespace glmtune::ops::sm90
