#pragma once
// glmtune.PretokenizedDataset: token ids from a safetensors reference file (reference_rows.h),
// whose rows come in order and repeat without end. One of labels and shifted_labels must be there;
// cu_seqlens makes a single row a pack. Other tensors (logits, gradients) are left alone.
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/settings.h"

namespace glmtune::data {

class PretokenizedDataset : public PackSource {
 public:
  // vocab_size: ids at or above it are an error; 0: not checked.
  PretokenizedDataset(const PretokenizedSettings& settings, std::int64_t vocab_size);

  std::optional<std::int64_t> size() const override { return std::nullopt; }
  Pack pack(std::int64_t number) const override;
  std::int64_t max_tokens() const override;
  std::int64_t most_documents() const override;
  bool may_shuffle() const override { return false; }
  std::string fingerprint() const override { return fingerprint_; }
  const DataSummary& summary() const override { return summary_; }
  std::string where(std::int64_t pack, std::int64_t document) const override;

 private:
  std::int64_t row_of(std::int64_t pack) const;

  std::string path_;
  std::vector<Pack> rows_;
  std::string fingerprint_;
  DataSummary summary_;
};

}  // namespace glmtune::data
