#pragma once
// Random ids with the next id as label, for benchmarks: row i is a function of (seed, i).
#include "data/pack.h"
#include "data/settings.h"

namespace glmtune::data {

class MockDataset : public PackSource {
 public:
  explicit MockDataset(const MockSettings& settings);
  std::optional<std::int64_t> size() const override { return settings_.num_samples; }
  Pack pack(std::int64_t number) const override;
  std::int64_t max_tokens() const override { return settings_.seq_len; }
  std::int64_t most_documents() const override { return 1; }
  std::string fingerprint() const override;
  const DataSummary& summary() const override { return summary_; }
  std::string where(std::int64_t pack, std::int64_t document) const override;

 private:
  MockSettings settings_;
  DataSummary summary_;
};

}  // namespace glmtune::data
