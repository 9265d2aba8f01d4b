// Device memory through the CUDA runtime.
#include <cuda_runtime_api.h>

#include "cuda/check.h"
#include "tensor/memory_backend.h"

namespace glmtune::cuda_memory {

bool available() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

void* allocate(std::size_t bytes) {
  void* p = nullptr;
  CUDA_CHECK(cudaMalloc(&p, bytes));
  return p;
}

void release(void* p) noexcept {
  cudaFree(p);
}

void copy(void* dst, const void* src, std::size_t bytes, void* stream) {
  CUDA_CHECK(
      cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)));
}

void zero(void* dst, std::size_t bytes, void* stream) {
  CUDA_CHECK(cudaMemsetAsync(dst, 0, bytes, static_cast<cudaStream_t>(stream)));
}

}  // namespace glmtune::cuda_memory
