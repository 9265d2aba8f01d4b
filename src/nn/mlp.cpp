#include "nn/mlp.h"

#include "ops/swiglu.h"

namespace glmtune::nn {

void Mlp::forward(Context& ctx, Tensor y, Tensor x, Tensor residual, Saved* saved) const {
  const Scope scope(*ctx.scratch);
  Arena& arena = ctx.keep(saved != nullptr);
  const std::int64_t T = x.size(0), I = gate_proj.weight.value.size(0);
  const Tensor gate = arena.make({T, I}, x.dtype), up = arena.make({T, I}, x.dtype);
  gate_proj.forward(ctx, gate, x, saved != nullptr ? &saved->gate_proj : nullptr);
  up_proj.forward(ctx, up, x, saved != nullptr ? &saved->up_proj : nullptr);
  if (y.defined()) {
    const Tensor act = ctx.scratch->make({T, I}, x.dtype);
    run(ctx, ops::Swiglu{.y = act, .gate = gate, .up = up, .row_scale = {}});
    down_proj.forward(ctx, y, act, nullptr, residual);
  }
  if (saved != nullptr) {
    saved->gate = gate;
    saved->up = up;
  }
}

void Mlp::backward(Context& ctx, Tensor dx, Tensor dy, const Saved& saved) const {
  const Scope scope(*ctx.scratch);
  Arena& scratch = *ctx.scratch;
  const std::int64_t T = dy.size(0), I = saved.gate.size(1);
  const Tensor act = scratch.make({T, I}, dy.dtype), dact = scratch.make({T, I}, dy.dtype);
  const Tensor dgate = scratch.make({T, I}, dy.dtype), dup = scratch.make({T, I}, dy.dtype);
  // down's input is not kept; SwigluBackward writes it again, so down's weight gradient comes
  // second.
  down_proj.backward(ctx, dact, dy, Linear::Saved{.x = act}, {.weight = false});
  run(ctx, ops::SwigluBackward{.dgate = dgate,
                               .dup = dup,
                               .drow_scale = {},
                               .y = act,
                               .dy = dact,
                               .gate = saved.gate,
                               .up = saved.up,
                               .row_scale = {}});
  down_proj.backward(ctx, {}, dy, Linear::Saved{.x = act});
  gate_proj.backward(ctx, dx, dgate, saved.gate_proj);
  up_proj.backward(ctx, dx, dup, saved.up_proj, {.add_to_dx = true});
}

}  // namespace glmtune::nn
