#pragma once
// The training loop: global batches from the sampler through the engine and the optimizer, with
// validation, checkpoints and logs where the schedule asks for them.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "data/pack.h"
#include "data/pack_sampler.h"
#include "train/engine.h"
#include "train/lr_schedule.h"
#include "train/optimizer.h"
#include "train/step_scheduler.h"
#include "train/training_state.h"

namespace glmtune::train {

// What one optimizer step did; all of it is of the global batch.
struct StepResult {
  std::int64_t step = 0, epoch = 0;
  std::optional<double> loss;  // mean over label tokens; none when the batch had no labels
  double grad_norm = 0;        // before clipping
  double lr = 0;               // of the next step, as AutoModel logs it
  std::int64_t tokens = 0;
  std::int64_t tokens_to_last_label = 0;  // without each pack's trailing run of unlabelled tokens
  std::int64_t label_tokens = 0;
  // From the last step's numbers (or what was done since, validation and checkpoints) to its own,
  // by the device's clock.
  double seconds = 0;
  double seconds_in_all = 0;              // with validation and checkpoints since the last step
  double flops = 0, automodel_flops = 0;  // flops.h
  bool applied = true;  // false: skipped (no labels, or not finite under policy skip)
};

struct ValidationSet {
  std::string name;  // "default", or what follows validation_dataset_
  std::unique_ptr<data::PackSource> source;
};
struct ValidationResult {
  std::string name;
  std::int64_t step = 0, epoch = 0;
  double loss = 0;  // mean over label tokens
  std::int64_t label_tokens = 0;
  double lr = 0;
};

// Everything the loop works with; owned by run_training.
struct LoopParts {
  Engine& engine;
  Optimizer& optimizer;
  const data::PackSource& source;
  const data::PackSampler& sampler;
  std::vector<ValidationSet>& validation;
  const StepScheduler& scheduler;
  const LrSchedule& lr_schedule;
  const Recipe& recipe;
  const std::atomic<int>* stop_signal;  // null: never

  // In the order of the steps: each when its numbers have arrived from the device, before anything
  // is saved or validated after it, and before the run ends in any way.
  std::function<void(const StepResult&)> on_step;
  std::function<void(const ValidationResult&)> on_validation;
  std::function<void(const std::string&)> on_message;  // warnings for a person
  // FLOPs of a pack, honest and by AutoModel's formula, on another thread; may be empty.
  std::function<std::pair<double, double>(const data::Pack&)> count_flops;
  // Whether the run may end after this step because of a signal; false: it asks again after the
  // next. May be empty.
  std::function<bool(std::int64_t epoch, std::int64_t step)> may_stop = {};
  // Writes a checkpoint of the loop's position, after step `next_step - 1`; is_last: nothing
  // follows.
  std::function<void(std::int64_t epoch, const StepResult&, const std::vector<ValidationResult>&,
                     bool is_last)>
      save;
  // What validation after the last step found, where a signal had the checkpoint saved before it.
  // May be empty.
  std::function<void(const StepResult&, const std::vector<ValidationResult>&)> add_validation = {};
  // For tests: a step's numbers count as arrived only once they are waited for, as on a busy GPU.
  bool numbers_come_late = false;
};

// Runs from `position` to the end of the schedule; position is left where the run stopped.
ExitCode run_loop(const LoopParts& parts, TrainingPosition& position);

// Packs of a validation row.
std::int64_t validation_batch_size(const Recipe& recipe);
// Mean loss over a source's labels, without gradients; none where `stop`, asked before each row,
// became true.
std::optional<ValidationResult> evaluate(Engine& engine, const ValidationSet& set,
                                         std::int64_t local_batch_size,
                                         const std::function<bool()>& stop = {});

}  // namespace glmtune::train
