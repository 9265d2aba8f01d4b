#pragma once
// Softmax cross-entropy on rows that have a label (model.md 3.9, 4.4); the caller works in chunks
// of rows, so full logits never exist. R rows, V vocabulary.
#include "ops/op.h"

namespace glmtune::ops {

// losses[r] = logsumexp(logits[r]) − logits[r, labels[r]]      wide [R], overwritten
// dlogits   = (softmax(logits[r]) − onehot(labels[r])) · grad_scale    [R, V], may be logits, or {}
// labels I32 [R], each in [0, V) (an error otherwise on the CPU). Everything in at least fp32
// before the one rounding.
struct CrossEntropy {
  Tensor losses, dlogits, logits, labels;
  double grad_scale;
  void check() const;
};
GLMTUNE_DECLARE_OP(CrossEntropy);

}  // namespace glmtune::ops
