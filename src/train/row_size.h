#pragma once
// How large the rows of a run get, and rows of that size that take the most memory.
#include <cstdint>
#include <vector>

#include "nn/packed_row.h"
#include "train/engine.h"

namespace glmtune::train {

// Tokens of a row that no memory holds; rows are indexed with 32 bits.
constexpr std::int64_t kLongestRow = std::int64_t{1} << 30;

// A row of a run: at most `packs` packs of `tokens` tokens, in documents that never cross packs.
struct RowSize {
  std::int64_t packs = 1, tokens = 1;
  std::int64_t longest_document = 0;  // tokens; 0: as long as a pack
  std::int64_t most_documents = 0;    // of a pack; 0: any number

  std::int64_t row_tokens() const { return packs * tokens; }
};

// A row of documents of these lengths, every token with a label.
struct SampleRow {
  explicit SampleRow(const std::vector<std::int64_t>& documents);
  RowInput input() const { return {ids, labels, cu_seqlens}; }
  std::vector<std::int32_t> ids, labels, cu_seqlens;
};

// What a row takes depends on the paths that its documents go: gathered ones keep most per token,
// and a single one beside them, in their pack or another, that is not gathered makes the row keep
// expanded keys and values too; the kernels of the other two take more with more documents of their
// path. No row of this size takes more of either arena than the most that one of these does (but
// for what the alignment of a document's own tensors adds).
std::vector<SampleRow> largest_rows(const RowSize& size, const nn::AttentionSettings& attention);

}  // namespace glmtune::train
