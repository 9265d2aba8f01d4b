#pragma once
// PackSampler: which packs make up each global batch. An epoch's order is a permutation of the
// pack numbers that depends on (seed, epoch) only, never on the number of ranks; the position in it
// is two integers, so that a run resumes in the middle of an epoch, also with another world size.
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

namespace glmtune::data {

struct SamplerSettings {
  std::int64_t global_batch_size = 1;  // packs of one optimizer step
  std::uint64_t seed = 42;
  bool shuffle = true;
  bool drop_last = false;  // leave out an epoch's last batch when it is incomplete
};

// Position: packs already taken in an epoch. (0, 0) is the start.
struct SamplerCursor {
  std::int64_t epoch = 0;
  std::int64_t next = 0;
  bool operator==(const SamplerCursor&) const = default;
};

struct GlobalBatch {
  std::vector<std::int64_t> packs;  // numbers, in the order in which they are dealt to the ranks
  SamplerCursor after;              // where the next batch begins
  bool last_of_epoch = false;

  // What one of `ranks` data-parallel ranks is dealt: packs rank, rank + ranks, ... A last batch
  // may leave some with fewer than others, or with none.
  std::vector<std::int64_t> share(std::int64_t rank, std::int64_t ranks) const;
};

// Tokens of a pack.
using PackLength = std::function<std::int64_t(std::int64_t pack)>;

class PackSampler {
 public:
  // packs: as PackSource::size(). length: given, a batch's packs are dealt by it, the longest
  // first, those of one length in the epoch's order; which packs make up a batch stays as it is, so
  // that nothing but the order within a batch depends on it. Throws Error where no epoch would hold
  // a single batch, and for shuffling without end.
  PackSampler(std::optional<std::int64_t> packs, SamplerSettings settings, PackLength length = {});

  // Optimizer steps of one epoch; none for a source without end.
  std::optional<std::int64_t> steps_per_epoch() const;
  // Where the run goes on from a position that another batch size or drop_last may have led to, or
  // another seed, which makes more or fewer packs of the same samples: the position, or the next
  // epoch where too few packs for a batch are left, or none.
  SamplerCursor go_on(SamplerCursor at) const;
  // Steps from such a position to the end of its epoch; none for a source without end.
  std::optional<std::int64_t> steps_left(SamplerCursor at) const;
  // The batch that begins at a position; the last one of an epoch may be smaller.
  GlobalBatch batch(SamplerCursor at) const;
  const SamplerSettings& settings() const { return settings_; }

 private:
  std::int64_t steps_of(std::int64_t packs) const;
  void check_inside(SamplerCursor at) const;
  void longest_first(std::vector<std::int64_t>& packs) const;

  std::optional<std::int64_t> packs_;
  SamplerSettings settings_;
  PackLength length_;
  mutable std::mutex mutex_;  // guards the order of the epoch asked for last
  mutable std::int64_t ordered_epoch_ = -1;
  mutable std::vector<std::int64_t> order_;
};

}  // namespace glmtune::data
