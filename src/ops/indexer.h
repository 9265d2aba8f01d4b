#pragma once
// The DSA indexer's scores and the selection of keys (model.md 3.5). Works on one document, or a
// run of its queries: query row t of the operands stands at position query_begin + t of the
// document and sees the keys 0 .. query_begin + t. Tq queries, S keys, I index heads, D index head
// size.
#include "ops/op.h"

namespace glmtune::ops {

// scores[t, s] = weight_scale · Σ_h weights[t, h] · ReLU(scale · q[t, h]·k[s])     wide [Tq, S]
//   q [Tq, I, D], k [S, D], weights wide [Tq, I]. Entries with s > query_begin + t are unspecified.
struct IndexScores {
  Tensor scores, q, k, weights;
  double scale, weight_scale;
  std::int64_t query_begin = 0;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(IndexScores);

// The k best visible keys of each query, all of them where fewer are visible. Larger score first,
// then smaller index; −0.0 equals +0.0; a NaN score is never chosen before a number. Deterministic.
//   mask    U32 [Tq, W], W ≥ ceil(S/32): bit s%32 of word s/32 is set iff key s is selected; or {}
//   indices I32 [Tq, K], K ≥ min(k, S): ascending key numbers + index_base, −1 after the last;
//           or {}
//   counts  I32 [Tq]: number of selected keys; or {}
// Scores of queries that see at most k keys are not read.
struct TopkSelect {
  Tensor mask, indices, counts, scores;
  std::int64_t k;
  std::int64_t query_begin = 0;
  std::int64_t index_base = 0;
  void check() const;
  std::size_t workspace_bytes(Device device) const;
};
GLMTUNE_DECLARE_OP(TopkSelect);

}  // namespace glmtune::ops
