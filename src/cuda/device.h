#pragma once
// The GPU as the rest of the program sees it; compiles without a CUDA toolkit. In a build without
// CUDA there are zero devices and make_cuda_context fails with a clear message.
#include <cstddef>
#include <memory>
#include <string>

namespace glmtune {

struct CudaContext;  // cuda/context.h
struct CudaContextDeleter {
  void operator()(CudaContext* context) const noexcept;
};
using CudaContextPtr = std::unique_ptr<CudaContext, CudaContextDeleter>;

struct CudaDeviceInfo {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::size_t total_bytes = 0, free_bytes = 0;
};

// Usable devices: 0 without a driver, a device or CUDA in the build. `why` (optional) says why 0.
int cuda_device_count(std::string* why = nullptr);
CudaDeviceInfo cuda_device_info(int ordinal);

// Device memory that a context takes for the libraries, outside every arena.
inline constexpr std::size_t kBlasWorkspaceBytes = std::size_t{64} << 20;

// Makes `ordinal` this thread's device, with a stream of its own (ordered with the default stream,
// on which plain copies run). MachineError where the device is not of compute capability 9.0 (the
// kernels use instructions of that one).
CudaContextPtr make_cuda_context(int ordinal);
void* cuda_stream(const CudaContext& context);  // cudaStream_t, for Context::stream
void cuda_synchronize(CudaContext& context);    // waits for the stream; reports kernel failures

}  // namespace glmtune
