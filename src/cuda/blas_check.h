#pragma once
// CUBLAS_CHECK(call): a failed cuBLASLt call is a MachineError with file, line and status name.
#include <cublasLt.h>

#include "base/cat.h"
#include "base/error.h"

#define CUBLAS_CHECK(call)                                                               \
  do {                                                                                   \
    const cublasStatus_t glmtune_status = (call);                                        \
    if (glmtune_status != CUBLAS_STATUS_SUCCESS)                                         \
      ::glmtune::fail_machine(::glmtune::cat(__FILE__, ":", __LINE__, ": ", #call, ": ", \
                                             cublasLtGetStatusName(glmtune_status)));    \
  } while (false)
