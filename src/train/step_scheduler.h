#pragma once
// What happens after which optimizer step: accumulation, ends of epochs, validation, checkpoints,
// the end of the run. Steps count from 0, or from start_step where that is given: the data begin at
// start_epoch then, the numbers go on.
#include <cstdint>
#include <optional>
#include <vector>

namespace glmtune::train {

// Recipe section step_scheduler.
struct StepSchedulerSettings {
  std::int64_t global_batch_size = 32;          // packs of one optimizer step, over all ranks
  std::int64_t local_batch_size = 1;            // packs of one micro-batch on one rank
  std::optional<std::int64_t> num_epochs = 10;  // null: as many as max_steps needs
  std::optional<std::int64_t> max_steps;        // null: num_epochs whole epochs; 0: load, save
  std::optional<std::int64_t> ckpt_every_steps = 100;  // null: once an epoch
  bool save_checkpoint_every_epoch = true;
  std::optional<std::int64_t> val_every_steps;  // null: at checkpoints only
  std::int64_t log_remote_every_steps = 1;
  std::int64_t loss_average_window_steps = 50;
  std::int64_t start_step = 0;
  std::int64_t start_epoch = 0;
  std::vector<int> preemption_signals;  // numbers; empty: none. Default SIGTERM and SIGUSR1
};

class StepScheduler {
 public:
  // steps_per_epoch: optimizer steps in one epoch (a short last one included), none for data
  // without end. Throws Error naming the recipe key: global_batch_size no multiple of
  // local_batch_size · dp_size (with the nearest values that are), neither an end of the data nor
  // max_steps.
  StepScheduler(const StepSchedulerSettings& settings, std::int64_t dp_size,
                std::optional<std::int64_t> steps_per_epoch);

  // The run goes on at `step`, with steps_left of `epoch` to come (PackSampler::steps_left). Where
  // the steps before were of other sizes, epochs end where the data's do all the same, and
  // num_epochs is the number of them; all below is of steps from `step` on then.
  void go_on(std::int64_t step, std::int64_t epoch, std::int64_t steps_left);

  // One past the number of the last optimizer step, which is the number of steps where start_step
  // is 0; 0 for a run that only loads and saves.
  std::int64_t total_steps() const { return total_steps_; }
  std::optional<std::int64_t> steps_per_epoch() const { return steps_per_epoch_; }

  std::int64_t epoch_of(std::int64_t step) const;
  bool ends_epoch(std::int64_t step) const;
  bool is_last(std::int64_t step) const { return step + 1 >= total_steps_; }
  // After this step a checkpoint is written: every ckpt_every_steps-th, the end of an epoch (unless
  // save_checkpoint_every_epoch is false), the last step.
  bool saves_checkpoint(std::int64_t step) const;
  // After this step the validation sets are evaluated: every val_every_steps-th, and with every
  // checkpoint.
  bool validates(std::int64_t step) const;

 private:
  StepSchedulerSettings settings_;
  std::optional<std::int64_t> steps_per_epoch_;
  std::int64_t first_step_, first_epoch_;  // this step begins this epoch
  std::int64_t total_steps_ = 0;
  std::int64_t checkpoint_every_ = 1;
};

}  // namespace glmtune::train
