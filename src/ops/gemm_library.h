#pragma once
// Float products by oneDNN on machines with AVX-512, where it chooses wider instructions at run
// time than this program is compiled for (docs/decisions/0005).
#include "ops/gemm.h"

namespace glmtune::ops {

// True where the library is the faster one.
bool library_gemm_is_faster();

// The product by oneDNN. Uses the calling thread alone when called inside a parallel region.
void library_gemm(const Gemm<float, float>& g);

}  // namespace glmtune::ops
