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
void* allocate_pinned(std::size_t) {
  absent();
}
void release_pinned(void*) noexcept {}
void copy(void*, const void*, std::size_t, void*) {
  absent();
}
void zero(void*, std::size_t, void*) {
  absent();
}
void synchronize(void*) {
  absent();
}

void* make_event() {
  absent();
}
void release_event(void*) noexcept {}
void record(void*, void*) {
  absent();
}
bool reached(void*) {
  absent();
}
void wait(void*) {
  absent();
}
double seconds_between(void*, void*) {
  absent();
}

}  // namespace glmtune::cuda_memory
#endif
