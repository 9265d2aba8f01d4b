#pragma once
// DsaIndexer: chooses each query's keys (model.md 3.5). Frozen: no gradient, no backward. Runs only
// for documents longer than index_topk; its result is kept for the step and replayed, never
// recomputed.
#include "nn/linear.h"
#include "nn/packed_row.h"
#include "ops/rope.h"

namespace glmtune::nn {

// The keys chosen for the documents of a row that are longer than index_topk.
struct Selection {
  Tensor mask;     // U32 [T, W] for the rows of masked documents; {} when there are none
  Tensor indices;  // I32 [G, K] key numbers inside the document; G: rows of the gather documents in
                   // order
  Tensor counts;   // I32 [G]
};

struct DsaIndexer {
  std::int64_t index_n_heads = 0, index_head_dim = 0, index_topk = 0, qk_rope_head_dim = 0;
  double rope_theta = 0;
  ops::RopeLayout rope_layout = ops::RopeLayout::kInterleaved;
  double k_norm_eps = 1e-6;

  Linear wq_b;                           // [I·D, q_lora_rank], from q_res
  Linear wk;                             // [D, hidden], from the attention input
  Parameter k_norm_weight, k_norm_bias;  // [D], LayerNorm
  Linear weights_proj;                   // [I, hidden]

  // Allocates the selection's tensors in `arena`.
  Selection allocate(Arena& arena, const PackedRow& row) const;
  // q_res [T, q_lora_rank]: the normalised query latent; h [T, hidden]: the attention's input.
  void select(Context& ctx, const Selection& selection, Tensor q_res, Tensor h,
              const PackedRow& row) const;

 private:
  void select_document(Context& ctx, const Selection& selection, Tensor q_res, Tensor h,
                       const PackedRow& row, RowRange doc, std::int64_t gather_row) const;
};

}  // namespace glmtune::nn
