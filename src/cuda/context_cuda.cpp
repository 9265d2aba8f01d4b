#include "cuda/blas_check.h"
#include "cuda/check.h"
#include "cuda/context.h"

namespace glmtune {

CudaContext::CudaContext(int device) : ordinal(device) {
  CUDA_CHECK(cudaSetDevice(ordinal));
  int major = 0, minor = 0, value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
  CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal));
  if (major != 9 || minor != 0)
    fail_machine(cat("CUDA device ", ordinal, " has compute capability ", major, ".", minor,
                     "; this build has kernels for 9.0 (H100, H200) only: use such a device, or "
                     "--device cpu"));
  CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal));
  CUDA_CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrL2CacheSize, ordinal));
  l2_bytes = static_cast<std::size_t>(value);
  CUDA_CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
  shared_bytes_per_block = static_cast<std::size_t>(value);
  CUDA_CHECK(cudaStreamCreate(&stream));
  CUBLAS_CHECK(cublasLtCreate(&blas));
  CUDA_CHECK(cudaMalloc(&blas_workspace, kBlasWorkspaceBytes));
}

CudaContext::~CudaContext() {
  if (stream != nullptr) cudaStreamSynchronize(stream);
  for (const Table& table : tables_) cudaFree(table.device);
  cudaFree(blas_workspace);
  if (blas != nullptr) cublasLtDestroy(blas);
  if (stream != nullptr) cudaStreamDestroy(stream);
}

const void* CudaContext::device_table(const void* bytes, std::size_t size) {
  const std::string_view wanted(static_cast<const char*>(bytes), size);
  for (const Table& table : tables_)
    if (table.content == wanted) return table.device;
  if (tables_.size() == kTables) {
    // Kernels in flight may still read the oldest table; this happens outside steady steps.
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaFree(tables_.front().device));
    tables_.erase(tables_.begin());
  }
  Table table{.content = std::string(wanted), .device = nullptr};
  CUDA_CHECK(cudaMalloc(&table.device, size));
  cudaError_t copied =
      cudaMemcpyAsync(table.device, table.content.data(), size, cudaMemcpyHostToDevice, stream);
  if (copied == cudaSuccess) copied = cudaStreamSynchronize(stream);
  if (copied != cudaSuccess) cudaFree(table.device);
  CUDA_CHECK(copied);
  tables_.push_back(std::move(table));
  return tables_.back().device;
}

void CudaContextDeleter::operator()(CudaContext* context) const noexcept {
  delete context;
}

int cuda_device_count(std::string* why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    if (why != nullptr) *why = cudaGetErrorString(status);
    return 0;
  }
  if (count == 0 && why != nullptr) *why = "no CUDA device is present";
  return count;
}

CudaDeviceInfo cuda_device_info(int ordinal) {
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal));
  CudaDeviceInfo info;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  int current = 0;
  CUDA_CHECK(cudaGetDevice(&current));
  CUDA_CHECK(cudaSetDevice(ordinal));
  CUDA_CHECK(cudaMemGetInfo(&info.free_bytes, &info.total_bytes));
  CUDA_CHECK(cudaSetDevice(current));
  return info;
}

CudaContextPtr make_cuda_context(int ordinal) {
  std::string why;
  const int count = cuda_device_count(&why);
  if (ordinal < 0 || ordinal >= count)
    fail_machine(cat("CUDA device ", ordinal, " is wanted, but there are ", count,
                     count == 0 ? " (" + why + "): use --device cpu" : std::string()));
  return CudaContextPtr(new CudaContext(ordinal));
}

void* cuda_stream(const CudaContext& context) {
  return context.stream;
}

void cuda_synchronize(CudaContext& context) {
  CUDA_CHECK(cudaStreamSynchronize(context.stream));
}

}  // namespace glmtune
