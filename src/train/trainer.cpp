#include "train/trainer.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/cat.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "cuda/device.h"
#include "io/files.h"
#include "models/glm_moe_dsa.h"
#include "models/random_init.h"
#include "train/flops.h"
#include "train/log.h"
#include "train/log_rewind.h"
#include "train/metrics_log.h"
#include "train/nonfinite.h"
#include "train/pass_options.h"
#include "train/progress.h"
#include "train/run_checkpoints.h"
#include "train/run_description.h"
#include "train/run_inputs.h"
#include "train/run_lock.h"
#include "train/run_log.h"
#include "train/run_memory.h"
#include "train/training_loop.h"

namespace glmtune::train {
namespace {

class Run {
 public:
  Run(const Recipe& recipe, const TrainOptions& options)
      : recipe_(recipe),
        options_(options),
        model_(open_run_model(recipe, options.hub)),
        lock_(recipe.checkpoint.checkpoint_dir),
        data_(open_run_data(recipe, model_, options.terminal)),
        checkpoints_(recipe, model_, *data_.source, options.terminal) {}

  ExitCode execute() {
    checkpoints_.find();
    checkpoints_.check_disk(data_);
    checkpoints_.check_rates(data_);
    check_logs(recipe_.checkpoint.checkpoint_dir, log_files(validation_names()));
    make_engine();
    checkpoints_.resume(*engine_, *optimizer_);
    if (checkpoints_.resumed() && data_.scheduler->total_steps() > 0)
      go_on(data_, checkpoints_.position());
    checkpoints_.check_folder_is_free(*data_.scheduler);
    const std::int64_t total = data_.scheduler->total_steps();
    const std::int64_t done = checkpoints_.position().next_step;
    if (checkpoints_.resumed() && total > 0 && done >= total) {
      checkpoints_.link_lowest_validation_loss();
      log_info(cat("nothing is left to do: ", done, " of ", total,
                   " steps are done; raise step_scheduler.max_steps or num_epochs to go on"));
      if (const std::string note = checkpoints_.missing_export(); !note.empty()) log_warning(note);
      return ExitCode::kOk;
    }
    if (total == 0) return load_and_save();
    set_rates(data_, recipe_);
    checkpoints_.warn_of_rate(*data_.lr_schedule);
    log_info(experiment_line(recipe_, options_.device));
    log_info(schedule_line(recipe_, *data_.scheduler, done));
    log_info(rates_line(recipe_, *data_.lr_schedule, done, total));
    if (!recipe_.checkpoint.enabled)
      log_warning("checkpoint.enabled is false: no checkpoint will be saved");
    reserve_memory(*engine_, *optimizer_, recipe_, data_, options_.device);
    checkpoints_.check_loaded(*engine_, *optimizer_);
    checkpoints_.link_lowest_validation_loss();
    // Last, for it moves the lines of an earlier run away.
    MetricsLog metrics(recipe_.checkpoint.checkpoint_dir, validation_names(), done);
    return train(metrics);
  }

 private:
  void make_engine() {
    Optimizer::check_settings(recipe_.optimizer, options_.device);
    memory_ = check_memory(recipe_, model_, data_, options_.device);
    auto model = models::make_model(model_.config, model_.dtype, recipe_.model.latent_norm_eps);
    Optimizer::check_overrides(*model, recipe_.optimizer);
    set_backend(recipe_, *model);
    engine_ = std::make_unique<Engine>(
        std::move(model),
        Engine::Settings{.device = options_.device,
                         .gradients = true,
                         .expert_load = recipe_.model.gate_bias_update_factor != 0});
    const BackendSettings& backend = recipe_.model.backend;
    if (backend.strict_backend && options_.device == Device::kCpu && !backend.attn_name.empty() &&
        backend.attn == AttentionBackend::kNative)
      fail(cat("model.backend.attn ", backend.attn_name,
               ": its kernels need a GPU and this run is ",
               "on the CPU, whose reference kernels are a fallback; model.backend.strict_backend ",
               "forbids that"));
    if (model_.checkpoint)
      engine_->load(*model_.checkpoint, byte_progress("Loading weights", options_.terminal));
    else
      models::random_parameters(engine_->context(), models::parameters_of(engine_->model()),
                                model_.config.initializer_range, recipe_.seed);
    optimizer_ = std::make_unique<Optimizer>(engine_->model(), recipe_.optimizer, recipe_.seed,
                                             options_.device);
    log_info(fmt::format(
        "model: {} parameters trained, {} ({} of weights, {} of gradients, {} of optimizer state)",
        optimizer_->trainable_parameters(), name_of(model_.dtype),
        io::human_bytes(engine_->parameters().value_bytes()),
        io::human_bytes(engine_->parameters().gradient_bytes()),
        io::human_bytes(optimizer_->state_bytes())));
    const bool has_mtp = model_.checkpoint && model_.checkpoint->has_mtp();
    const std::string frozen = frozen_line(
        engine_->model(), has_mtp ? model_.config.num_nextn_predict_layers : std::int64_t{0});
    if (!frozen.empty()) log_info(frozen);
    log_info(cat("optimizer: ", optimizer_line(recipe_, model_.dtype)));
    log_info(attention_line(engine_->model().attention()));
  }

  std::vector<std::string> validation_names() const {
    std::vector<std::string> names;
    for (const ValidationSet& set : data_.validation) names.push_back(set.name);
    return names;
  }

  ExitCode load_and_save() {
    if (!recipe_.checkpoint.enabled)
      fail("step_scheduler.max_steps is 0 and checkpoint.enabled is false: nothing to do");
    engine_->reserve({.saved = 0, .scratch = optimizer_->scratch_bytes(options_.device)});
    checkpoints_.check_loaded(*engine_, *optimizer_);
    checkpoints_.save_unchanged(*engine_, *optimizer_);
    return ExitCode::kOk;
  }

  std::size_t memory_bytes() const {
    const MemoryPlan arenas = engine_->capacity();
    return engine_->parameters().value_bytes() + engine_->parameters().gradient_bytes() +
           optimizer_->state_bytes() + arenas.saved + arenas.scratch;
  }

  ExitCode train(MetricsLog& metrics) {
    TrainingPosition& at = checkpoints_.position();
    RunLog log(metrics, peak_tflops(recipe_, options_.device), [this] { return memory_bytes(); });
    Progress progress("Training", at.next_step, data_.scheduler->total_steps(), options_.terminal);
    const LoopParts parts{
        .engine = *engine_,
        .optimizer = *optimizer_,
        .source = *data_.source,
        .sampler = *data_.sampler,
        .validation = data_.validation,
        .scheduler = *data_.scheduler,
        .lr_schedule = *data_.lr_schedule,
        .recipe = recipe_,
        .stop_signal = options_.stop_signal,
        .on_step =
            [&](const StepResult& r) {
              log.write(r, progress);
              report_device_memory();
            },
        .on_validation = [&](const ValidationResult& v) { log.write(v); },
        .on_message = [](const std::string& text) { log_warning(text); },
        .count_flops =
            [&](const data::Pack& p) {
              return std::pair(
                  model_flops(model_.config, p.bounds, p.label_tokens()),
                  automodel_flops(
                      model_.config,
                      automodel_tokens(p, recipe_.dataset.packing.packed_sequence_size)));
            },
        .may_stop = [&](std::int64_t epoch,
                        std::int64_t step) { return checkpoints_.can_save(epoch, step); },
        .save =
            [&](std::int64_t epoch, const StepResult& step,
                const std::vector<ValidationResult>& validation, bool is_last) {
              checkpoints_.save(*engine_, *optimizer_, epoch, step, validation, is_last);
            },
        .add_validation =
            [&](const StepResult& step, const std::vector<ValidationResult>& validation) {
              checkpoints_.add_validation(step, validation);
            }};
    const ExitCode code = run_loop(parts, at);
    checkpoints_.log_lowest_validation_loss();
    if (code == ExitCode::kOk) log_early_end();
    if (code == ExitCode::kPreempted)
      log_warning(cat("stopped by a signal after step ", at.next_step - 1,
                      recipe_.checkpoint.enabled
                          ? cat("; a checkpoint is written, ", checkpoints_.how_to_go_on())
                          : std::string("; checkpoint.enabled is false, nothing is saved")));
    return code;
  }

  void log_early_end() const {
    const StepSchedulerSettings& s = recipe_.step_scheduler;
    const std::int64_t total = data_.scheduler->total_steps();
    if (s.num_epochs && s.max_steps && total < *s.max_steps)
      log_info(cat("ended by step_scheduler.num_epochs ", *s.num_epochs, " after step ", total - 1,
                   ", before max_steps ", *s.max_steps,
                   "; num_epochs: null takes as many epochs as max_steps needs"));
  }

  // Once: whether the device's own count agrees with what was planned before the run.
  void report_device_memory() {
    if (options_.device != Device::kCuda || memory_.planned == 0) return;
    log_info(device_memory_line(memory_, cuda_device_info(0).free_bytes));
    memory_.planned = 0;
  }

  const Recipe& recipe_;
  const TrainOptions& options_;
  RunModel model_;
  RunLock lock_;
  RunData data_;
  RunCheckpoints checkpoints_;
  PlannedMemory memory_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace

Device choose_device(std::string* why) {
  return cuda_device_count(why) > 0 ? Device::kCuda : Device::kCpu;
}

int run_training(const Recipe& recipe, const TrainOptions& options) {
  check_restore_from(recipe);  // before models and data are read
  try {
    return exit_status(Run(recipe, options).execute());
  } catch (const NonFiniteWeights& e) {
    log_warning(e.what());
    return exit_status(ExitCode::kNonFinite);
  }
}

}  // namespace glmtune::train
