#pragma once
// PackedDataset: samples laid into packs of at most packed_sequence_size tokens, or one sample per
// pack without packing. All samples are made at construction, by several threads; the result does
// not depend on their number. With a cache folder the work is done once for all ranks and runs.
//   thd   next-fit: samples in order, a pack closes at the first sample that does not fit.
//   neat  samples in order go to the open pack with the least room that still suffices (best-fit);
//         fuller packs, the same samples.
#include <memory>

#include "data/dataset.h"
#include "data/pack.h"
#include "data/pack_cache.h"
#include "data/sample.h"
#include "data/sample_store.h"
#include "data/settings.h"

namespace glmtune::data {

// Sample numbers of each pack, for samples of these lengths; none may be longer than the capacity.
std::vector<std::vector<std::int64_t>> lay_into_packs(const std::vector<std::int64_t>& lengths,
                                                      std::int64_t capacity,
                                                      PackingStrategy strategy);

class PackedDataset : public PackSource {
 public:
  // vocab_size: ids at or above it are an error; 0: not checked.
  PackedDataset(std::unique_ptr<SampleMaker> maker, const PackingSettings& packing,
                std::int64_t vocab_size, const Progress& progress = {});

  std::optional<std::int64_t> size() const override {
    return static_cast<std::int64_t>(contents_.starts.size()) - 1;
  }
  Pack pack(std::int64_t number) const override;
  std::int64_t tokens(std::int64_t number) const override;
  std::int64_t max_tokens() const override { return max_tokens_; }
  std::int64_t most_documents() const override { return most_documents_; }
  std::string fingerprint() const override { return fingerprint_; }
  const DataSummary& summary() const override { return contents_.summary; }
  ChatFacts chat_facts() const override { return maker_->chat_facts(); }
  std::string where(std::int64_t pack, std::int64_t document) const override;

 private:
  std::string cache_key(std::int64_t vocab_size) const;
  void make_contents(const Progress& progress, std::int64_t vocab_size);
  void make_samples(const Progress& progress, std::int64_t vocab_size);
  // False when enough packs are full and no further sample is wanted.
  bool keep(Sample&& sample, std::int64_t row, std::int64_t vocab_size);
  void note_problem(std::int64_t row, std::string problem);
  void make_packs();
  // Throws Error when too little is left.
  void check_dropped() const;
  void finish();
  std::int64_t document(std::int64_t pack, std::int64_t document) const;

  std::unique_ptr<SampleMaker> maker_;
  PackingSettings packing_;
  PackedContents contents_;
  std::int64_t max_tokens_ = 0, most_documents_ = 0;
  std::int64_t bad_rows_ = 0;
  std::vector<std::pair<std::int64_t, std::string>> problems_;  // the first, as files have them
  std::int64_t fill_ = 0;        // tokens of the pack that next-fit has open
  std::int64_t full_packs_ = 0;  // packs that next-fit has closed
  std::string fingerprint_;
};

}  // namespace glmtune::data
