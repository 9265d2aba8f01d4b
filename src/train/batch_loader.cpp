#include "train/batch_loader.h"

#include <algorithm>

#include "base/error.h"

namespace glmtune::train {
namespace {

// Batches that lie ready: one for the step being queued, one while the next is prepared.
constexpr std::size_t kAhead = 2;

// Tokens up to and including the last one with a label.
std::int64_t to_last_label(const data::Pack& p) {
  std::size_t n = p.labels.size();
  while (n > 0 && p.labels[n - 1] == data::kNoLabel) --n;
  return static_cast<std::int64_t>(n);
}

}  // namespace

BatchLoader::BatchLoader(Parts parts, data::SamplerCursor at, std::int64_t steps)
    : parts_(std::move(parts)), thread_([this, at, steps] { work(at, steps); }) {}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

StepBatch BatchLoader::prepare(data::SamplerCursor at) const {
  const data::GlobalBatch batch = parts_.sampler.batch(at);
  StepBatch step{.epoch = at.epoch, .after = batch.after, .rows = {}};
  const auto local = static_cast<std::size_t>(parts_.local_batch_size);
  for (std::size_t i = 0; i < batch.packs.size(); i += local) {
    data::Pack row;
    for (std::size_t k = i; k < std::min(batch.packs.size(), i + local); ++k) {
      const data::Pack pack = parts_.source.pack(batch.packs[k]);
      step.tokens += pack.tokens();
      step.tokens_to_last_label += to_last_label(pack);
      step.label_tokens += pack.label_tokens();
      if (parts_.count_flops) {
        const auto [honest, automodel] = parts_.count_flops(pack);
        step.flops += honest;
        step.automodel_flops += automodel;
      }
      row.append(pack);
    }
    step.rows.push_back(
        parts_.engine.lay_out({.ids = row.ids, .labels = row.labels, .cu_seqlens = row.bounds}));
  }
  return step;
}

void BatchLoader::work(data::SamplerCursor at, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) {
    Prepared prepared;
    try {
      prepared.batch = prepare(at);
      at = prepared.batch.after;
    } catch (...) {
      prepared.error = std::current_exception();
    }
    const bool failed = prepared.error != nullptr;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || ready_.size() < kAhead; });
    if (stop_) return;
    ready_.push_back(std::move(prepared));
    changed_.notify_all();
    if (failed) return;
  }
}

StepBatch BatchLoader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty(); });
  if (ready_.front().error) std::rethrow_exception(ready_.front().error);
  StepBatch batch = std::move(ready_.front().batch);
  ready_.pop_front();
  changed_.notify_all();
  return batch;
}

}  // namespace glmtune::train
