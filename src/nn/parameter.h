#pragma once
// A parameter and its gradient. Names are Hugging Face's; the experts of a layer are stacked into
// `...mlp.experts.gate_up_proj` [E, 2I, H] (gate rows first) and `...mlp.experts.down_proj` [E, H,
// I].
#include <functional>
#include <string>

#include "tensor/tensor.h"

namespace glmtune::nn {

struct Parameter {
  std::string name;
  Tensor value;
  Tensor grad = {};       // {} while none is allocated; adds up over micro-batches
  bool trainable = true;  // false: no gradient, no optimizer state, no weight decay
};

using ParameterVisitor = std::function<void(Parameter&)>;

}  // namespace glmtune::nn
