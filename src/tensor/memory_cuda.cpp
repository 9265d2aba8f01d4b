// Device memory and events through the CUDA runtime.
#include <cuda_runtime_api.h>

#include "cuda/check.h"
#include "tensor/memory_backend.h"

namespace glmtune::cuda_memory {
namespace {

cudaStream_t stream_of(void* stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t event_of(void* event) {
  return static_cast<cudaEvent_t>(event);
}

}  // namespace

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

void* allocate_pinned(std::size_t bytes) {
  void* p = nullptr;
  CUDA_CHECK(cudaMallocHost(&p, bytes));
  return p;
}

void release_pinned(void* p) noexcept {
  cudaDeviceSynchronize();  // no copy may still be on its way
  cudaFreeHost(p);
}

void copy(void* dst, const void* src, std::size_t bytes, void* stream) {
  CUDA_CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream_of(stream)));
}

void zero(void* dst, std::size_t bytes, void* stream) {
  CUDA_CHECK(cudaMemsetAsync(dst, 0, bytes, stream_of(stream)));
}

void synchronize(void* stream) {
  CUDA_CHECK(cudaStreamSynchronize(stream_of(stream)));
}

void* make_event() {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventBlockingSync));
  return event;
}

void release_event(void* event) noexcept {
  cudaEventDestroy(event_of(event));
}

void record(void* event, void* stream) {
  CUDA_CHECK(cudaEventRecord(event_of(event), stream_of(stream)));
}

bool reached(void* event) {
  const cudaError_t status = cudaEventQuery(event_of(event));
  if (status == cudaErrorNotReady) return false;
  CUDA_CHECK(status);
  return true;
}

void wait(void* event) {
  CUDA_CHECK(cudaEventSynchronize(event_of(event)));
}

double seconds_between(void* earlier, void* later) {
  float milliseconds = 0;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_of(earlier), event_of(later)));
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace glmtune::cuda_memory
