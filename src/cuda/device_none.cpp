#ifndef GLMTUNE_HAS_CUDA
#include "base/error.h"
#include "cuda/device.h"

namespace glmtune {
namespace {
constexpr const char* kAbsent = "this glmtune was built without CUDA";
}

void CudaContextDeleter::operator()(CudaContext*) const noexcept {}
int cuda_device_count(std::string* why) {
  if (why != nullptr) *why = kAbsent;
  return 0;
}
CudaDeviceInfo cuda_device_info(int) {
  fail(kAbsent);
}
CudaContextPtr make_cuda_context(int) {
  fail("this glmtune was built without CUDA: use --device cpu, or build the preset `cuda`");
}
void* cuda_stream(const CudaContext&) {
  return nullptr;
}
void cuda_synchronize(CudaContext&) {}

}  // namespace glmtune
#endif
