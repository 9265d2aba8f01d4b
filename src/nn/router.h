#pragma once
// Router: which experts a token goes to and with what weight (model.md 3.7, 4.3), in at least fp32.
// T tokens, E experts, K experts per token.
#include <optional>

#include "nn/linear.h"

namespace glmtune::nn {

// What is kept of a routing decision; it is replayed under activation checkpointing.
struct Routing {
  Tensor expert_ids;   // I32 [T, K]
  Tensor row_of_slot;  // I32 [T, K]: row of the expert-sorted order
  Tensor slot_of_row;  // I32 [T·K]
  Tensor offsets;      // I32 [E+1]: first row of each expert

  static Routing allocate(Arena& arena, std::int64_t tokens, std::int64_t experts, std::int64_t k);
};

struct Router {
  struct Saved {
    Linear::Saved gate;
    Tensor scores;  // [T, E] wide
  };
  struct Mode {
    bool replay = false;  // routing is given; nothing is chosen or counted again
    bool count_load = false;
  };

  std::int64_t num_experts_per_tok = 0, n_group = 1, topk_group = 1;
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1;

  Linear gate;                        // [E, C]
  Parameter e_score_correction_bias;  // F32 [E], never trained by gradient
  Tensor load;  // I64 [E], tokens per expert since it was last zeroed; {}: not kept
  // Set: the gate is not used and experts are chosen evenly, with this much noise
  // (ops/fake_gate.h).
  std::optional<double> fake_noise = {};
  std::uint64_t fake_seed = 0;

  // weights [T, K], wide.
  void forward(Context& ctx, Tensor weights, Tensor x, const Routing& routing, Mode mode,
               Saved* saved) const;
  // dx += the router's part; dweights [T, K] wide.
  void backward(Context& ctx, Tensor dx, Tensor dweights, const Routing& routing,
                const Saved& saved) const;

 private:
  // The gate's part for BF16 x and weight: dlogits F32 enter the products unrounded.
  void gate_backward(Context& ctx, Tensor dx, Tensor dlogits, Tensor x) const;
  void score(Context& ctx, Tensor weights, Tensor x, const Routing& routing, bool replay,
             Saved* saved) const;
};

}  // namespace glmtune::nn
