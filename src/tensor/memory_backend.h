#pragma once
// What memory on a CUDA device needs; defined in tensor/memory_cuda.cpp, or in
// tensor/memory_none.cpp for a build without CUDA, where it fails with a clear message.
#include <cstddef>

namespace glmtune::cuda_memory {

bool available();  // true where a usable device is present
void* allocate(std::size_t bytes);
void release(void* p) noexcept;
// Page-locked host memory, which copies reach without the program's help.
void* allocate_pinned(std::size_t bytes);
void release_pinned(void* p) noexcept;

// Any direction, in the stream's order. Page-locked host memory must stay as it is until the copy
// is made, which the call does not wait for. Pageable memory may change when the call returns on
// the way up; on the way down the call returns when the copy is made.
void copy(void* dst, const void* src, std::size_t bytes, void* stream);
void zero(void* dst, std::size_t bytes, void* stream);
void synchronize(void* stream);  // waits until everything in the stream is done

void* make_event();  // never recorded: reached
void release_event(void* event) noexcept;
void record(void* event, void* stream);
bool reached(void* event);
void wait(void* event);                              // the thread sleeps meanwhile
double seconds_between(void* earlier, void* later);  // both recorded and reached

}  // namespace glmtune::cuda_memory
