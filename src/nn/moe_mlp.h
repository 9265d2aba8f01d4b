#pragma once
// MoeMlp: routed experts + shared expert (model.md 3.7, 4.3).
// T tokens, C hidden size, E experts, K per token, I moe_intermediate_size, R = T·K expert rows.
#include <optional>

#include "nn/mlp.h"
#include "nn/router.h"

namespace glmtune::nn {

// All routed experts of a layer, stacked; the router's weight multiplies the activation before the
// down projection. An adapter (LoRA) belongs inside this struct.
struct Experts {
  struct Saved {
    Tensor gate_up;      // [R, 2I]
    Tensor row_weights;  // [R, 1] wide
    Tensor x;            // view of the input [T, C]; rows are gathered again in the backward
  };

  Parameter gate_up_proj;  // [E, 2I, C], gate rows first
  Parameter down_proj;     // [E, C, I]

  // y [T, C] = base + Σ experts; y may be base; y {}: only what is saved.
  void forward(Context& ctx, Tensor y, Tensor x, Tensor base, Tensor weights,
               const Routing& routing, Saved* saved) const;
  // dx [T, C] += ; dweights [T, K] wide, overwritten.
  void backward(Context& ctx, Tensor dx, Tensor dweights, Tensor dy, const Routing& routing,
                const Saved& saved) const;
};

struct MoeMlp {
  struct Saved {
    Router::Saved router;
    Experts::Saved experts;
    Mlp::Saved shared;
  };

  Router router;
  Experts experts;
  std::optional<Mlp> shared_experts;

  Routing allocate_routing(Arena& arena, std::int64_t tokens) const;
  // y [T, C] = moe(x) + residual; y {}: only what is saved.
  void forward(Context& ctx, Tensor y, Tensor x, Tensor residual, const Routing& routing,
               Router::Mode mode, Saved* saved) const;
  // dx [T, C] overwritten.
  void backward(Context& ctx, Tensor dx, Tensor dy, const Routing& routing,
                const Saved& saved) const;
};

}  // namespace glmtune::nn
