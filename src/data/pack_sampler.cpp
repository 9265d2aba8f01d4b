#include "data/pack_sampler.h"

#include <algorithm>
#include <utility>

#include "base/cat.h"
#include "base/error.h"
#include "data/shuffle.h"

namespace glmtune::data {

std::vector<std::int64_t> GlobalBatch::share(std::int64_t rank, std::int64_t ranks) const {
  if (rank < 0 || rank >= ranks) fail(cat("rank ", rank, " of ", ranks));
  std::vector<std::int64_t> out;
  for (auto i = static_cast<std::size_t>(rank); i < packs.size();
       i += static_cast<std::size_t>(ranks))
    out.push_back(packs[i]);
  return out;
}

PackSampler::PackSampler(std::optional<std::int64_t> packs, SamplerSettings settings,
                         PackLength length)
    : packs_(packs), settings_(settings), length_(std::move(length)) {
  if (settings_.global_batch_size < 1) {
    fail(cat("global_batch_size must be at least 1, found ", settings_.global_batch_size));
  }
  if (!packs_) {
    check(!settings_.shuffle,
          "dataloader.shuffle: a data set that repeats without end comes in order and cannot be "
          "shuffled; set dataloader.shuffle: false");
    return;
  }
  check(*packs_ > 0, "the data set holds no packs: nothing to train on");
  if (settings_.drop_last && *packs_ < settings_.global_batch_size) {
    fail(cat("the data set holds ", *packs_, " packs, fewer than one global batch of ",
             settings_.global_batch_size,
             ", and dataloader.drop_last leaves incomplete batches out; use a smaller "
             "step_scheduler.global_batch_size or dataloader.drop_last: false"));
  }
}

std::int64_t PackSampler::steps_of(std::int64_t packs) const {
  const std::int64_t batch = settings_.global_batch_size;
  return packs / batch + (!settings_.drop_last && packs % batch > 0 ? 1 : 0);
}

std::optional<std::int64_t> PackSampler::steps_per_epoch() const {
  if (!packs_) return std::nullopt;
  return steps_of(*packs_);
}

void PackSampler::check_inside(SamplerCursor at) const {
  if (at.epoch < 0 || at.next < 0 || at.next >= *packs_)
    fail(cat("position (epoch ", at.epoch, ", pack ", at.next, ") is outside the data set of ",
             *packs_, " packs; was the run started with other data?"));
}

SamplerCursor PackSampler::go_on(SamplerCursor at) const {
  if (!packs_) return at;
  return at.next < *packs_ && steps_of(*packs_ - at.next) > 0 ? at : SamplerCursor{at.epoch + 1, 0};
}

std::optional<std::int64_t> PackSampler::steps_left(SamplerCursor at) const {
  if (!packs_) return std::nullopt;
  check_inside(at);
  return steps_of(*packs_ - at.next);
}

void PackSampler::longest_first(std::vector<std::int64_t>& packs) const {
  if (!length_) return;
  std::vector<std::pair<std::int64_t, std::int64_t>> by_length;
  for (const std::int64_t pack : packs) by_length.emplace_back(length_(pack), pack);
  std::stable_sort(by_length.begin(), by_length.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; i < packs.size(); ++i) packs[i] = by_length[i].second;
}

GlobalBatch PackSampler::batch(SamplerCursor at) const {
  GlobalBatch out;
  const std::int64_t size = settings_.global_batch_size;
  if (!packs_) {
    for (std::int64_t i = 0; i < size; ++i) out.packs.push_back(at.next + i);
    longest_first(out.packs);
    out.after = {at.epoch, at.next + size};
    return out;
  }
  check_inside(at);
  const std::int64_t end = std::min(at.next + size, *packs_);
  {
    const std::scoped_lock lock(mutex_);
    if (settings_.shuffle && ordered_epoch_ != at.epoch) {
      order_ = permutation(*packs_, settings_.seed, static_cast<std::uint64_t>(at.epoch));
      ordered_epoch_ = at.epoch;
    }
    for (std::int64_t i = at.next; i < end; ++i)
      out.packs.push_back(settings_.shuffle ? order_[static_cast<std::size_t>(i)] : i);
  }
  longest_first(out.packs);
  const std::int64_t left = *packs_ - end;
  out.last_of_epoch = left == 0 || (settings_.drop_last && left < size);
  out.after = out.last_of_epoch ? SamplerCursor{at.epoch + 1, 0} : SamplerCursor{at.epoch, end};
  return out;
}

}  // namespace glmtune::data
