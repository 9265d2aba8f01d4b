#pragma once
// Expert choice and the order of rows it implies (model.md 3.7, 4.3). T tokens, E experts, K chosen
// per token; a slot is t·K + j (token t's j-th expert); R = T·K rows sorted by expert.
#include "ops/op.h"

namespace glmtune::ops {

// scores = sigmoid(logits)                               wide [T, E]
// choice = scores + bias, kept in the topk_group best of n_group groups (a group counts the sum of
//          its two best choices)
// expert_ids = the K best of choice, larger first, then lower index                    I32 [T, K]
// weights[t, j] = scaling · s_j / (Σ_j s_j + 1e-20)      wide [T, K]
//          s: unbiased scores of the chosen; norm_topk_prob false: without the division
//
// bias F32 [E] (e_score_correction_bias). replay: expert_ids is an input, nothing is chosen.
struct RouterTopk {
  Tensor scores, expert_ids, weights, logits, bias;
  std::int64_t n_group = 1, topk_group = 1;
  bool norm_topk_prob = true;
  double scaling = 1;
  bool replay = false;
  void check() const;
};
GLMTUNE_DECLARE_OP(RouterTopk);

// Of the chosen experts j, with S = Σ_j s_j + 1e-20 (model.md 4.3):
//   ds_j = scaling · (dweights_j − Σ_k dweights_k s_k / S) / S, or scaling · dweights_j without
//   the normalisation;  dlogits_j = ds_j · s_j · (1 − s_j)
// dlogits wide [T, E], overwritten (0 for experts not chosen); dweights wide [T, K]; scores and
// expert_ids as RouterTopk left them.
struct RouterTopkBackward {
  Tensor dlogits, dweights, scores, expert_ids;
  bool norm_topk_prob = true;
  double scaling = 1;
  void check() const;
};
GLMTUNE_DECLARE_OP(RouterTopkBackward);

// Stable order of the slots by expert: row_of_slot I32 [T, K], slot_of_row I32 [T·K], offsets I32
// [E+1].
struct ExpertSort {
  Tensor offsets, row_of_slot, slot_of_row, expert_ids;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(ExpertSort);

// load[e] += tokens sent to expert e;  load I64 [E], offsets I32 [E+1].
struct AddExpertLoad {
  Tensor load, offsets;
  void check() const;
};
GLMTUNE_DECLARE_OP(AddExpertLoad);

// bias[e] += factor · sign(mean(load) − load[e]);  bias F32 [E], load I64 [E] (model.md 4.5).
// gate F64 [1] or {}: NaN leaves the bias as it is (ClipFactor's mark of a step not applied).
struct UpdateRouterBias {
  Tensor bias, load, gate;
  double factor;
  void check() const;
};
GLMTUNE_DECLARE_OP(UpdateRouterBias);

}  // namespace glmtune::ops
