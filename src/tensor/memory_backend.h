#pragma once
// The three things memory on a CUDA device needs; defined in tensor/memory_cuda.cpp, or in
// tensor/memory_none.cpp for a build without CUDA, where they fail with a clear message.
#include <cstddef>

namespace glmtune::cuda_memory {

bool available();  // true where a usable device is present
void* allocate(std::size_t bytes);
void release(void* p) noexcept;
void copy(void* dst, const void* src, std::size_t bytes, void* stream);  // any direction
void zero(void* dst, std::size_t bytes, void* stream);

}  // namespace glmtune::cuda_memory
