#include "train/step_scheduler.h"

#include <algorithm>
#include <limits>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::train {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// One past the last step; the first is start_step.
std::int64_t total_steps_of(const StepSchedulerSettings& s,
                            std::optional<std::int64_t> steps_per_epoch) {
  if (!steps_per_epoch) {
    if (!s.max_steps) fail("step_scheduler.max_steps: the data have no end, so the run needs one");
    return *s.max_steps;
  }
  if (!s.num_epochs && s.max_steps) return *s.max_steps;
  const std::int64_t epochs = s.num_epochs.value_or(10);
  const std::int64_t left = std::max<std::int64_t>(epochs - s.start_epoch, 0);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto steps_of = [&](std::int64_t n) {
    return n > kMost / *steps_per_epoch ? kMost : n * *steps_per_epoch;
  };
  const std::int64_t by_epochs =
      steps_of(left) > kMost - s.start_step ? kMost : s.start_step + steps_of(left);
  return std::min(s.max_steps.value_or(steps_of(epochs)), by_epochs);
}

}  // namespace

StepScheduler::StepScheduler(const StepSchedulerSettings& settings, std::int64_t dp_size,
                             std::optional<std::int64_t> steps_per_epoch)
    : settings_(settings), steps_per_epoch_(steps_per_epoch) {
  const std::int64_t global = settings.global_batch_size;
  const std::int64_t at_once = settings.local_batch_size * dp_size;
  if (global % at_once != 0) {
    const std::int64_t above = ceil_div(global, at_once) * at_once;
    const std::int64_t below = above - at_once;
    fail(cat("step_scheduler.global_batch_size: ", global, " is no multiple of local_batch_size ",
             settings.local_batch_size, " x data-parallel size ", dp_size, " = ", at_once,
             "; nearest: ", below > 0 ? cat(below, " or ") : "", above));
  }
  if (steps_per_epoch && *steps_per_epoch < 1)
    fail("step_scheduler.global_batch_size: an epoch of the data holds no whole batch");
  accumulation_ = global / at_once;
  total_steps_ = total_steps_of(settings, steps_per_epoch);
  const std::int64_t epoch = steps_per_epoch.value_or(std::max<std::int64_t>(total_steps_ / 2, 1));
  if (total_steps_ > 0 && settings.start_step >= total_steps_)
    fail(cat("step_scheduler.start_step: ", settings.start_step, " is not before the end of the ",
             "run, step ", total_steps_));
  checkpoint_every_ = settings.ckpt_every_steps.value_or(epoch);
}

std::int64_t StepScheduler::epoch_of(std::int64_t step) const {
  const std::int64_t done = step - settings_.start_step;
  return settings_.start_epoch + (steps_per_epoch_ ? done / *steps_per_epoch_ : 0);
}

bool StepScheduler::ends_epoch(std::int64_t step) const {
  return steps_per_epoch_ && (step - settings_.start_step + 1) % *steps_per_epoch_ == 0;
}

bool StepScheduler::saves_checkpoint(std::int64_t step) const {
  if (is_last(step) || step % checkpoint_every_ == checkpoint_every_ - 1) return true;
  return settings_.save_checkpoint_every_epoch && ends_epoch(step);
}

bool StepScheduler::validates(std::int64_t step) const {
  const auto every = settings_.val_every_steps;
  return saves_checkpoint(step) || (every && step % *every == *every - 1);
}

std::vector<std::int64_t> micro_batch_groups(std::int64_t micro_batches,
                                             std::int64_t accumulation) {
  std::vector<std::int64_t> groups(static_cast<std::size_t>(micro_batches / accumulation),
                                   accumulation);
  if (micro_batches % accumulation != 0) groups.push_back(micro_batches % accumulation);
  return groups;
}

}  // namespace glmtune::train
