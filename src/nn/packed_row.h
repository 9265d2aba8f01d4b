#pragma once
// PackedRow: the tokens of one micro-batch as flat rows, and which attention path each of its
// documents takes (design.md section 5). There is no padding: every row is a real token.
#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention.h"
#include "tensor/context.h"

namespace glmtune::nn {

enum class AttentionPath : std::uint8_t {
  kDense,   // every visible key, no indexer: documents of at most index_topk tokens
  kMasked,  // indexer + top-k as a bitmask over the dense kernel
  kGather,  // indexer + top-k as index lists, absorbed attention over the gathered keys
};

// How paths are chosen. All three agree within rounding.
struct AttentionSettings {
  std::int64_t index_topk = 0;
  std::int64_t masked_max_tokens = 8192;  // longer documents take the gather path
  // For tests and back ends that have one path only: documents beyond index_topk go this way; with
  // `force_short` the shorter ones too (with all their keys).
  bool force = false, force_short = false;
  AttentionPath forced = AttentionPath::kMasked;
};

AttentionPath choose_path(std::int64_t document_tokens, const AttentionSettings& settings);

struct RowRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

struct PackedRow {
  std::int64_t tokens = 0;
  Tensor ids;         // I32 [T]
  Tensor positions;   // I32 [T], restart at 0 in each document
  Tensor label_rows;  // I32 [L]: rows that have a label
  Tensor label_ids;   // I32 [L]: their labels
  std::int64_t labels = 0;

  ops::Documents dense, masked;     // what CausalAttention works on, without and with a mask
  std::vector<RowRange> gather;     // documents of the gather path
  std::vector<RowRange> selecting;  // documents that need the indexer: masked, then gather ones
  std::vector<RowRange> expanded;   // maximal runs of rows that are not on the gather path
  std::int64_t masked_max_length = 0;
  std::int64_t gather_rows = 0;
};

// A row as the host prepares it, ahead of its turn and on any thread: the numbers that travel to
// the device and where each of them goes. It must outlive the pass over its row
// (ops::Documents::host).
class RowLayout {
 public:
  // `ids` are tokens, `labels` are already shifted (−100: none), `cu_seqlens` holds the documents'
  // starts and the end. Throws when bounds do not cover the tokens, or a label or id is outside
  // [0, vocab_size).
  RowLayout(std::span<const std::int32_t> ids, std::span<const std::int32_t> labels,
            std::span<const std::int32_t> cu_seqlens, std::int64_t vocab_size,
            const AttentionSettings& settings);

  std::int64_t tokens() const { return row_.tokens; }
  // Ids, positions, label rows, label ids, bounds of dense and of masked documents.
  std::span<const std::int32_t> numbers() const { return numbers_; }
  // The row with its views of `numbers` I32 [n], the device's copy.
  PackedRow place(Tensor numbers) const;

 private:
  void add_tokens(std::span<const std::int32_t> ids, std::span<const std::int32_t> labels,
                  std::span<const std::int32_t> cu_seqlens, std::int64_t vocab_size);
  void add_documents(std::span<const std::int32_t> cu_seqlens, const AttentionSettings& settings);

  PackedRow row_;  // without tensors
  std::vector<std::int32_t> numbers_;
};

}  // namespace glmtune::nn
