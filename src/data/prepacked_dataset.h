#pragma once
// Rows that are packs already (packed_sequence.prepacked), from JSON or Parquet files:
//   input_ids  [T]
//   labels     [T], already shifted within each document; -100: none
//   seq_lens   lengths of the documents, optional: without it the row is one document
//   seq_lens_padded  the room each of them takes, optional: without it they stand end to end
// What lies behind a document is padding and left out. Rows are parsed when they are needed,
// and once at the start to be checked and counted.
#include <cstdint>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/rows.h"
#include "data/settings.h"

namespace glmtune::data {

class PrepackedDataset : public PackSource {
 public:
  // vocab_size: ids at or above it are an error; 0: not checked. Throws Error naming file, line and
  // field, also for a row longer than packing.packed_sequence_size (0: no limit).
  PrepackedDataset(const std::vector<std::string>& paths, const RowSelection& selection,
                   const PackingSettings& packing, std::int64_t vocab_size);

  std::optional<std::int64_t> size() const override { return summary_.packs; }
  Pack pack(std::int64_t number) const override;
  std::int64_t max_tokens() const override { return max_tokens_; }
  std::int64_t most_documents() const override { return most_documents_; }
  std::string fingerprint() const override { return fingerprint_; }
  const DataSummary& summary() const override { return summary_; }
  std::string where(std::int64_t pack, std::int64_t document) const override;

 private:
  Rows rows_;
  std::int64_t vocab_size_;
  std::int64_t max_tokens_ = 0, most_documents_ = 0;
  std::string fingerprint_;
  DataSummary summary_;
};

}  // namespace glmtune::data
