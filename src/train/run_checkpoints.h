#pragma once
// RunCheckpoints: where a run stands and the checkpoints that keep it: which one it goes on from,
// room for the ones to come, and a save with its Hugging Face folder and the links to it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/pack.h"
#include "io/json.h"
#include "train/checkpoint_folder.h"
#include "train/engine.h"
#include "train/lr_schedule.h"
#include "train/optimizer.h"
#include "train/recipe.h"
#include "train/run_inputs.h"
#include "train/training_loop.h"
#include "train/training_state.h"

namespace glmtune::train {

// Error where checkpoint.restore_from names a checkpoint that is not there or is incomplete.
void check_restore_from(const Recipe& recipe);

class RunCheckpoints {
 public:
  // source: the training data. terminal: long reads and writes show progress there.
  RunCheckpoints(const Recipe& recipe, const RunModel& model, const data::PackSource& source,
                 bool terminal);

  // Before weights are read: removes what an interrupted save left and looks for checkpoints of
  // this run; Error for a folder that holds those of other runs only, or any where
  // checkpoint.enabled is false.
  void find();
  // Also before: MachineError, or a warning, where the disk has no room for what the run saves.
  void check_disk(const RunData& data) const;
  // Also before: Error, naming the key, for rates that do not fit the steps of the run, which goes
  // on from the best checkpoint where there is one.
  void check_rates(const RunData& data) const;
  // Fills the model and the optimizer from the best checkpoint and moves position() there; without
  // one nothing happens. Error where all are damaged, or another model's.
  void resume(Engine& engine, Optimizer& optimizer);
  // After resume(), with the run's own rates: a warning where these do not go on at the rate that
  // the checkpoint's run would have taken next, as with another number of steps.
  void warn_of_rate(const LrSchedule& schedule) const;
  // Error, naming the tensor and the folder it came from, where a weight of the model or of the
  // checkpoint is not finite: one that no step reads, or only a later one, would train unnoticed.
  // After resume(), with the arenas reserved.
  void check_loaded(Engine& engine, Optimizer& optimizer) const;
  // Error where a save to come has a folder in its way, which is never overwritten: one of the
  // schedule, or that of a stop by a signal, which may come at any step and waits for one more.
  void check_folder_is_free(const StepScheduler& scheduler) const;
  // Points LOWEST_VAL at the best of the run's checkpoints that are there, where it names no or a
  // worse one. After these checks: a run that is refused changes nothing.
  void link_lowest_validation_loss();
  // Whether a stop after this step can be saved; says why not.
  bool can_save(std::int64_t epoch, std::int64_t step) const;
  // "the same command goes on from there", or what to leave out of it.
  std::string how_to_go_on() const;

  // Of a run whose steps are done: the checkpoint has no Hugging Face folder though
  // save_consolidated wants one of the last step, and the command that writes it; else "".
  std::string missing_export() const;

  bool resumed() const { return !resumed_from_.path.empty(); }
  // The next step and what goes with it; the training loop moves it on.
  TrainingPosition& position() { return at_; }

  // Writes a checkpoint, points LATEST (and LOWEST_VAL) at it and removes those that
  // max_recent_checkpoints leaves out. is_last: nothing follows. Trained weights that are not
  // finite throw NonFiniteWeights before anything is written; where the Hugging Face folder fails,
  // the training state is published without it before the Error.
  void save(Engine& engine, Optimizer& optimizer, std::int64_t epoch, const StepResult& step,
            const std::vector<ValidationResult>& validation, bool is_last);
  // Adds what validation found to the checkpoint just saved, as if it had been known then.
  void add_validation(const StepResult& step, const std::vector<ValidationResult>& validation);
  // The same of a run without steps: what was loaded is written again.
  void save_unchanged(Engine& engine, Optimizer& optimizer);

  void log_lowest_validation_loss() const;

 private:
  std::vector<StepFolder> own(const std::vector<StepFolder>& candidates) const;
  // The schedule from the best of the candidates on, and the step where it goes on: the run's own
  // without one; none where that one cannot be read, and another, or none, will be gone on from.
  struct Planned {
    StepScheduler schedule;
    std::int64_t first = 0;
  };
  std::optional<Planned> planned(const RunData& data) const;
  // Where a run that goes on from there begins in its data.
  data::SamplerCursor cursor_after(const TrainingPosition& saved) const;
  void find_lowest_validation_loss(const StepFolder& from);
  void warn_of_newer(const StepFolder& from, const TrainingPosition& saved) const;
  // Gives the checkpoint just saved LOWEST_VAL where its loss is the lowest, and removes old ones.
  void settle_saved(const std::vector<ValidationResult>& validation);
  bool may_be_removed(const StepFolder& folder) const;
  bool exports(bool is_last) const;
  void write(Engine& engine, Optimizer& optimizer, std::int64_t epoch, const StepResult& step,
             const std::vector<ValidationResult>& validation, bool is_last);
  void check_finite(Engine& engine, Optimizer& optimizer) const;
  models::SaveReport export_model(Engine& engine, const std::string& folder) const;

  const Recipe& recipe_;
  const RunModel& model_;
  bool terminal_;
  CheckpointFolder folder_;
  std::vector<StepFolder> candidates_;  // that the run may go on from, the best first
  std::vector<std::string> left_out_;   // paths of damaged ones, which it would rather go on from
  io::Value facts_;                     // for the manifests
  TrainingPosition at_;
  StepFolder saved_;                        // by the last save(); without a path: none yet
  StepFolder resumed_from_;                 // without a path: the run starts at the model's weights
  std::optional<double> lowest_val_loss_;   // of a checkpoint, by best_metric_key
  std::optional<StepFolder> to_be_linked_;  // as LOWEST_VAL
};

}  // namespace glmtune::train
