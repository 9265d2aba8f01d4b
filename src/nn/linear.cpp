#include "nn/linear.h"

#include "ops/matmul.h"

namespace glmtune::nn {

void Linear::forward(Context& ctx, Tensor y, Tensor x, Saved* saved, Tensor residual) const {
  run(ctx, ops::Matmul{.out = y,
                       .a = x,
                       .b = weight.value,
                       .c = residual,
                       .trans_b = true,
                       .beta = residual.defined() ? 1.0 : 0.0});
  if (saved != nullptr) saved->x = x;
}

void Linear::backward(Context& ctx, Tensor dx, Tensor dy, const Saved& saved,
                      BackwardMode mode) const {
  if (dx.defined())
    run(ctx,
        ops::Matmul{.out = dx, .a = dy, .b = weight.value, .beta = mode.add_to_dx ? 1.0 : 0.0});
  if (mode.weight && weight.grad.defined())
    run(ctx, ops::Matmul{.out = weight.grad,
                         .a = dy,
                         .b = saved.x,
                         .trans_a = true,
                         .beta = weight.begin_grad(ctx) ? 0.0 : 1.0});
}

}  // namespace glmtune::nn
