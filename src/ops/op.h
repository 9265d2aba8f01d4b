#pragma once
// How an op runs. An op is a struct of named operands with
//   void check() const;                         shapes and dtypes; the message names the operand
//   std::size_t workspace_bytes(Device) const;  optional: bytes of scratch it needs on that device
//
// and, in its .cpp, `void run_cpu(const Op&, Tensor workspace)`, in its .cu
// `void run_cuda(Context&, const Op&, Tensor workspace)`. A missing version is a link error that
// names the op. Absent operands are written `.name = {}`; a forgotten one is a compile error.
// Unless a header says otherwise an op overwrites its outputs; those that add say so.
#include "tensor/context.h"

namespace glmtune {

#ifdef GLMTUNE_HAS_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

template <class Op>
void run(Context& ctx, const Op& op) {
  op.check();
  Tensor workspace;
  const std::size_t mark = ctx.scratch != nullptr ? ctx.scratch->mark() : 0;
  if constexpr (requires { op.workspace_bytes(Device::kCpu); }) {
    const std::size_t bytes = op.workspace_bytes(ctx.target);
    check(bytes == 0 || ctx.scratch != nullptr, "an op that needs scratch memory got none");
    if (bytes > 0) workspace = ctx.scratch->make({static_cast<std::int64_t>(bytes)}, DType::kU8);
  }
  switch (ctx.device) {
    case Device::kCpu:
      run_cpu(op, workspace);
      break;
    case Device::kCuda:
      if constexpr (kHasCuda)
        run_cuda(ctx, op, workspace);
      else
        fail("this glmtune was built without CUDA");
      break;
    case Device::kMeta:
      break;
  }
  if (ctx.scratch != nullptr) ctx.scratch->release(mark);
}

// Declares both versions of an op; the definitions are in its .cpp and .cu.
#define GLMTUNE_DECLARE_OP(Op)                  \
  void run_cpu(const Op& op, Tensor workspace); \
  void run_cuda(Context& ctx, const Op& op, Tensor workspace)

}  // namespace glmtune
