#pragma once
// Rows by index on CUDA: GatherRows, and Embedding, whose table is what is gathered from.
#include "tensor/context.h"

namespace glmtune::ops {

// y[r] = x[index[r]], elements of 2 or 4 bytes; a row outside x gives NaN. `op` is for messages.
void gather_rows(Context& ctx, const char* op, const Tensor& y, const Tensor& x,
                 const Tensor& index);

}  // namespace glmtune::ops
