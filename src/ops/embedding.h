#pragma once
// Token embedding. T tokens, C hidden size, V vocabulary.
#include "ops/op.h"

namespace glmtune::ops {

// y[t] = table[ids[t]];  y [T, C], ids I32 [T], table [V, C]. An id outside [0, V) is an error on
// the CPU and gives a row of NaN on a GPU; what lays out rows checks ids before they travel
// (nn/packed_row.h).
struct Embedding {
  Tensor y, ids, table;
  void check() const;
};
GLMTUNE_DECLARE_OP(Embedding);

// dtable[ids[t]] += dy[t], adding in the order of t (deterministic); dy [T, C], dtable [V, C] of
// dy's dtype or wider. Ids as in Embedding.
struct EmbeddingBackward {
  Tensor dtable, dy, ids;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(EmbeddingBackward);

}  // namespace glmtune::ops
