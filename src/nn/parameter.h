#pragma once
// A parameter and its gradient, which the first backward of a step writes and later ones add to
// (docs/decisions/0011). Names are Hugging Face's; the experts of a layer are stacked into
// `...mlp.experts.gate_up_proj` [E, 2I, H] (gate rows first) and `...mlp.experts.down_proj` [E, H,
// I].
#include <functional>
#include <string>

#include "tensor/context.h"

namespace glmtune::nn {

struct Parameter {
  std::string name;
  Tensor value;
  Tensor grad = {};       // {} while none is allocated; adds up over micro-batches
  bool trainable = true;  // false: no gradient, no optimizer state, no weight decay
  // Whether grad holds a sum yet; shared by all that share grad, kept by who owns its memory
  // (models/parameter_store.h). nullptr: it always does.
  bool* grad_begun = nullptr;

  // Asked by a backward for every product that goes into grad. True: it is the first since the
  // gradients were started, what grad holds is nothing, all of it is to be overwritten; from now on
  // it counts as begun. False: add to it. A dry run begins nothing.
  bool begin_grad(const Context& ctx) const {
    if (grad_begun == nullptr || *grad_begun || ctx.device == Device::kMeta) return false;
    *grad_begun = true;
    return true;
  }
  // grad for an op that only adds: filled with zeros where it was not begun.
  Tensor grad_to_add_to(const Context& ctx) const {
    if (begin_grad(ctx)) zero_bytes(grad, ctx.stream);
    return grad;
  }
};

using ParameterVisitor = std::function<void(Parameter&)>;

}  // namespace glmtune::nn
