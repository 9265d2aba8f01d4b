#pragma once
// The backward that belongs to an attention op: outputs for every gradient, random dout, and the
// forward's own operands.
#include "ops/attention.h"
#include "support/operands.h"

namespace glmtune::test {

ops::CausalAttentionBackward backward_of(Operands& o, const ops::CausalAttention& forward);
ops::SparseMlaBackward backward_of(Operands& o, const ops::SparseMla& forward);

}  // namespace glmtune::test
