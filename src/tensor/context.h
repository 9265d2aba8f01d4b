#pragma once
// Context: where an op runs and where its temporary memory comes from. Passed, never global.
#include "tensor/arena.h"

namespace glmtune {

struct CudaContext;  // cuda/context.h: stream, cuBLASLt handle, cached algorithms

struct Context {
  Device device = Device::kCpu;  // kMeta for a dry run
  Device target = Device::kCpu;  // the device a dry run plans for; otherwise equal to `device`
  void* stream = nullptr;        // cudaStream_t
  CudaContext* cuda = nullptr;   // null on the CPU
  Arena* saved = nullptr;
  Arena* scratch = nullptr;

  // Where a module puts a tensor that is only kept when a backward follows.
  Arena& keep(bool for_backward) const { return for_backward ? *saved : *scratch; }
};

}  // namespace glmtune
