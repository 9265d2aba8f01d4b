#pragma once
// Sample: one document of ids and labels. SampleMaker: a data set as a numbered list of samples,
// each made on demand, so that making them can be shared between threads.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "data/hash.h"
#include "data/pack.h"
#include "data/settings.h"

namespace glmtune::text {
class EncodeCache;
}

namespace glmtune::data {

struct Sample {
  std::vector<std::int32_t> ids;
  // labels[t] is ids[t + 1] or kNoLabel; the last one may be any id (a stop that is a label only).
  std::vector<std::int32_t> labels;
  std::string dropped;   // not empty: left out, for this reason
  bool invalid = false;  // dropped, and counts towards the ceiling on bad rows
  std::string problem;   // the message of a row that was refused and skipped
  bool truncated = false;
  std::vector<Count> notes;  // added up in the summary
};

// Of everything that makes ids and labels of a row: tokenizer, templates, masks. Raised whenever
// the same row and settings give another sample, so that no cache has the old one.
inline constexpr std::int64_t kSampleVersion = 4;

class SampleMaker {
 public:
  virtual ~SampleMaker() = default;
  virtual std::int64_t size() const = 0;
  // Error naming file and line for a row that is refused. Safe from several threads, each with a
  // cache of its own.
  virtual Sample sample(std::int64_t row, text::EncodeCache& cache) const = 0;
  virtual std::string where(std::int64_t row) const = 0;
  // A number that orders rows as they stand in their files.
  virtual std::int64_t in_files(std::int64_t row) const { return row; }
  // Everything that the samples depend on.
  virtual void add_to(ContentHash& hash) const = 0;
  // Bad and unlabelled rows beyond this share of all stop the run.
  virtual double max_dropped_fraction() const { return 1.0; }
  // What is worth knowing about the settings, before any row is read.
  virtual std::vector<Count> notes() const { return {}; }
  virtual ChatFacts chat_facts() const { return {}; }
};

// Counts texts of users that spell a control token and were encoded as ordinary text.
void note_control_spellings(std::size_t spellings, std::vector<Count>& notes);

// A row that is left out because of this error. Throws where that is BrokenArray.
Sample refused(const std::exception& error);

// Keeps the first `limit` tokens. What the last of them should predict is no longer there.
void truncate(Sample& sample, std::int64_t limit);

// Applies the policy for samples longer than `limit` (none: nothing is too long).
void fit(Sample& sample, std::optional<std::int64_t> limit, TooLong policy,
         const std::string& where);

}  // namespace glmtune::data
