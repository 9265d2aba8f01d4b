#pragma once
// CUDA_CHECK(call): every CUDA call is checked; a failure is a MachineError with file, line and
// text.
#include <cuda_runtime_api.h>

#include "base/cat.h"
#include "base/error.h"

#define CUDA_CHECK(call)                                                                 \
  do {                                                                                   \
    const cudaError_t glmtune_status = (call);                                           \
    if (glmtune_status != cudaSuccess)                                                   \
      ::glmtune::fail_machine(::glmtune::cat(__FILE__, ":", __LINE__, ": ", #call, ": ", \
                                             cudaGetErrorString(glmtune_status)));       \
  } while (false)
