#pragma once
// Floating-point operations of training, two ways: AutoModel's formula (for its `mfu` key) and what
// is really computed (for `mfu_true`). One multiply-add counts as two.
#include <cstdint>
#include <span>

#include "data/pack.h"
#include "models/glm_config.h"

namespace glmtune::train {

// AutoModel's mla_moe_flops for one sequence of S tokens, forward + backward: index_topk keys per
// query whatever S, the indexer on every layer, one whole MTP layer when the config names any.
double automodel_flops(const models::GlmConfig& config, std::int64_t tokens);

// The S that AutoModel counts for a pack: it takes the row as it is given, filled up to the size of
// packs. Without packing (0), where its rows are padded to the longest of the batch, the tokens.
std::int64_t automodel_tokens(const data::Pack& pack, std::int64_t packed_sequence_size);

// Model FLOPs of one packed row: causal pairs that are really attended (at most index_topk keys a
// query), indexer forward on full layers of documents longer than index_topk, the head on labelled
// rows, trained products three times, frozen ones once; no recompute.
double model_flops(const models::GlmConfig& config, std::span<const std::int32_t> cu_seqlens,
                   std::int64_t label_tokens);

}  // namespace glmtune::train
