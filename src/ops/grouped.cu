#include "ops/grouped.cuh"

namespace glmtune::ops {
namespace {

void expect_gpu_types(const char* op, const Tensor& in, const Tensor& out) {
  for (const Tensor& t : {in, out})
    if (t.dtype != DType::kF32 && t.dtype != DType::kBF16)
      fail(cat(op, ": ", name_of(t.dtype),
               " on a CUDA device; it works on F32 and BF16 (use --device cpu for F64)"));
}

}  // namespace

void run_cuda(Context& ctx, const GroupedMatmul& op, Tensor workspace) {
  expect_gpu_types("GroupedMatmul", op.a, op.out);
  if (op.out.count() == 0) return;
  if (!grouped_matmul_sm90(ctx, op, workspace)) grouped_matmul_generic(ctx, op);
}

void run_cuda(Context& ctx, const GroupedMatmulWgrad& op, Tensor workspace) {
  expect_gpu_types("GroupedMatmulWgrad", op.dy, op.dw);
  if (op.dw.count() == 0) return;
  if (op.overwrite) clear_experts_without_rows(ctx, op);
  if (op.dy.size(0) == 0) return;
  if (!grouped_wgrad_sm90(ctx, op, workspace)) grouped_wgrad_generic(ctx, op);
}

}  // namespace glmtune::ops
