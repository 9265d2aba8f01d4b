#include "nn/rms_norm.h"

#include "ops/norm.h"

namespace glmtune::nn {

void RmsNorm::forward(Context& ctx, Tensor y, Tensor x, Saved* saved) const {
  const Scope scope(*ctx.scratch);
  const Tensor rstd = ctx.keep(saved != nullptr).make({x.size(0)}, wide(x.dtype));
  run(ctx, ops::RmsNorm{.y = y, .rstd = rstd, .x = x, .weight = weight.value, .eps = eps});
  if (saved != nullptr) *saved = {.x = x, .rstd = rstd};
}

void RmsNorm::backward(Context& ctx, Tensor dx, Tensor dy, const Saved& saved,
                       Tensor residual) const {
  run(ctx,
      ops::RmsNormBackward{.dx = dx,
                           .dweight = weight.grad,
                           .dy = dy,
                           .x = saved.x,
                           .weight = weight.value,
                           .rstd = saved.rstd,
                           .residual = residual,
                           .overwrite_dweight = weight.grad.defined() && weight.begin_grad(ctx)});
}

}  // namespace glmtune::nn
