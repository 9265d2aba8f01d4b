#ifndef GLMTUNE_HAS_CUDA
#include "base/error.h"
#include "tensor/memory_backend.h"

namespace glmtune::cuda_memory {
namespace {
[[noreturn]] void absent() {
  fail("this glmtune was built without CUDA: use --device cpu, or build the preset `cuda`");
}
}  // namespace

bool available() {
  return false;
}
void* allocate(std::size_t) {
  absent();
}
void release(void*) noexcept {}
void copy(void*, const void*, std::size_t, void*) {
  absent();
}
void zero(void*, std::size_t, void*) {
  absent();
}

}  // namespace glmtune::cuda_memory
#endif
