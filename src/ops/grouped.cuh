#pragma once
// The two implementations behind GroupedMatmul and GroupedMatmulWgrad on CUDA.
#include "ops/kernel.cuh"
#include "ops/matmul.h"

namespace glmtune::ops {

// Tensor cores: BF16 operands whose rows the copy engine can address. False: not possible here.
// `workspace`: an int.
bool grouped_matmul_sm90(Context& ctx, const GroupedMatmul& op, Tensor workspace);
bool grouped_wgrad_sm90(Context& ctx, const GroupedMatmulWgrad& op, Tensor workspace);

// Any F32 or BF16 operands, plain fp32 arithmetic.
void grouped_matmul_generic(Context& ctx, const GroupedMatmul& op);
void grouped_wgrad_generic(Context& ctx, const GroupedMatmulWgrad& op);
// dw[e] = 0 for experts without rows, which the kernels above leave alone.
void clear_experts_without_rows(Context& ctx, const GroupedMatmulWgrad& op);

}  // namespace glmtune::ops
