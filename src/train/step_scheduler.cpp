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

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::int64_t epochs_of(const StepSchedulerSettings& s) {
  return s.num_epochs.value_or(10);
}

std::int64_t steps_of(std::int64_t epochs, std::int64_t steps_per_epoch) {
  return epochs > kMost / steps_per_epoch ? kMost : epochs * steps_per_epoch;
}

// One past the last step of the last epoch, where step `first` begins `epoch`.
std::int64_t end_of_epochs(const StepSchedulerSettings& s, std::int64_t steps_per_epoch,
                           std::int64_t first, std::int64_t epoch) {
  const std::int64_t left =
      steps_of(std::max<std::int64_t>(epochs_of(s) - epoch, 0), steps_per_epoch);
  return first > 0 && left > kMost - first ? kMost : first + left;
}

// One past the last step; the first is start_step.
std::int64_t total_steps_of(const StepSchedulerSettings& s,
                            std::optional<std::int64_t> steps_per_epoch) {
  if (!steps_per_epoch) {
    if (!s.max_steps) fail("step_scheduler.max_steps: the data have no end, so the run needs one");
    return *s.max_steps;
  }
  if (!s.num_epochs && s.max_steps) return *s.max_steps;
  return std::min(s.max_steps.value_or(steps_of(epochs_of(s), *steps_per_epoch)),
                  end_of_epochs(s, *steps_per_epoch, s.start_step, s.start_epoch));
}

}  // namespace

StepScheduler::StepScheduler(const StepSchedulerSettings& settings, std::int64_t dp_size,
                             std::optional<std::int64_t> steps_per_epoch)
    : settings_(settings),
      steps_per_epoch_(steps_per_epoch),
      first_step_(settings.start_step),
      first_epoch_(settings.start_epoch) {
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
  total_steps_ = total_steps_of(settings, steps_per_epoch);
  const std::int64_t epoch = steps_per_epoch.value_or(std::max<std::int64_t>(total_steps_ / 2, 1));
  if (total_steps_ > 0 && settings.start_step >= total_steps_)
    fail(cat("step_scheduler.start_step: ", settings.start_step, " is not before the end of the ",
             "run, step ", total_steps_));
  checkpoint_every_ = settings.ckpt_every_steps.value_or(epoch);
}

void StepScheduler::go_on(std::int64_t step, std::int64_t epoch, std::int64_t steps_left) {
  if (!steps_per_epoch_) return;
  // Where the epoch would have begun in steps of this size.
  const std::int64_t first = step - (*steps_per_epoch_ - steps_left);
  if (first == first_step_ + (epoch - first_epoch_) * *steps_per_epoch_) return;
  first_step_ = first;
  first_epoch_ = epoch;
  if (!settings_.num_epochs && settings_.max_steps) return;
  const std::int64_t end = end_of_epochs(settings_, *steps_per_epoch_, first, epoch);
  total_steps_ = std::min(settings_.max_steps.value_or(kMost), std::max(step, end));
}

std::int64_t StepScheduler::epoch_of(std::int64_t step) const {
  return first_epoch_ + (steps_per_epoch_ ? (step - first_step_) / *steps_per_epoch_ : 0);
}

bool StepScheduler::ends_epoch(std::int64_t step) const {
  return steps_per_epoch_ && (step - first_step_ + 1) % *steps_per_epoch_ == 0;
}

bool StepScheduler::saves_checkpoint(std::int64_t step) const {
  // Without a number at the ends of epochs, wherever these lie in a run that goes on.
  const bool at_ends = !settings_.ckpt_every_steps && steps_per_epoch_;
  if (is_last(step) ||
      (at_ends ? ends_epoch(step) : step % checkpoint_every_ == checkpoint_every_ - 1))
    return true;
  return settings_.save_checkpoint_every_epoch && ends_epoch(step);
}

bool StepScheduler::validates(std::int64_t step) const {
  const auto every = settings_.val_every_steps;
  return saves_checkpoint(step) || (every && step % *every == *every - 1);
}

}  // namespace glmtune::train
