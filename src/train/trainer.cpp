#include "train/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "base/cat.h"
#include "base/exit_code.h"
#include "models/glm_moe_dsa.h"
#include "models/random_init.h"
#include "train/checkpoint_folder.h"
#include "train/disk_space.h"
#include "train/flops.h"
#include "train/log.h"
#include "train/memory_estimate.h"
#include "train/metrics_log.h"
#include "train/pass_options.h"
#include "train/progress.h"
#include "train/resume.h"
#include "train/run_lock.h"
#include "train/run_log.h"
#include "train/training_data.h"
#include "train/training_loop.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;

// Longer than any row that fits a memory; rows are indexed with 32 bits.
constexpr std::int64_t kLongestRow = std::int64_t{1} << 30;

// The Hugging Face folder of a step folder.
constexpr const char* kExport = "model/consolidated";

std::vector<nn::Parameter*> all_parameters(models::CausalLm& model) {
  std::vector<nn::Parameter*> list;
  model.visit_parameters([&](nn::Parameter& p) { list.push_back(&p); });
  return list;
}

class Run {
 public:
  Run(const Recipe& recipe, const TrainOptions& options)
      : recipe_(recipe), options_(options), folder_(recipe.checkpoint.checkpoint_dir) {}

  ExitCode execute() {
    open_model();
    lock_.emplace(folder_.root());
    open_data();
    find_checkpoints();
    check_disk();
    make_engine();
    resume();
    check_folder_is_free();
    const std::int64_t total = scheduler_->total_steps();
    if (resumed_ && total > 0 && at_.next_step >= total) {
      log_info(cat("nothing is left to do: ", at_.next_step, " of ", total,
                   " steps are done; raise step_scheduler.max_steps or num_epochs to go on"));
      return ExitCode::kOk;
    }
    if (total == 0) return load_and_save();
    metrics_ = std::make_unique<MetricsLog>(folder_.root(), at_.next_step);
    reserve_memory();
    return train();
  }

 private:
  void open_model() {
    const std::string& name = recipe_.model.pretrained_model_name_or_path;
    if (recipe_.model.from_config) {
      const fs::path path(name);
      const std::string config =
          path.extension() == ".json" ? name : (path / "config.json").string();
      config_ = models::read_glm_config(config);
      model_folder_ = fs::path(config).parent_path().string();
      dtype_ = recipe_.model.torch_dtype.value_or(config_.dtype.value_or(DType::kBF16));
      if (recipe_.checkpoint.enabled &&
          recipe_.checkpoint.save_consolidated != SaveConsolidated::kNever)
        fail(
            "model: from_config gives random weights without a checkpoint to save beside; set "
            "checkpoint.enabled: false, or make a checkpoint with `glmtune init` and train that");
      return;
    }
    model_folder_ = io::resolve_repo(name, io::RepoKind::kModel, options_.hub).folder;
    checkpoint_.emplace(models::HfCheckpoint::open(model_folder_));
    config_ = checkpoint_->config();
    if (config_.num_nextn_predict_layers > 0 && !checkpoint_->has_mtp())
      log_warning(cat(model_folder_, ": config.json announces num_nextn_predict_layers ",
                      config_.num_nextn_predict_layers, ", but no MTP tensor is there; what is ",
                      "saved lacks them too and cannot be served with speculative decoding"));
    dtype_ = recipe_.model.torch_dtype.value_or(checkpoint_->own_dtype());
    if (checkpoint_->quantized() && recipe_.checkpoint.dequantize_base_checkpoint == false)
      fail(cat(model_folder_,
               " holds FP8 weights and checkpoint.dequantize_base_checkpoint is false: ",
               "set it to true (weights become BF16) or name a BF16 checkpoint"));
  }

  void open_data() {
    TrainingData data(model_folder_, config_.vocab_size);
    const auto open = [&](const DatasetEntry& entry) {
      Progress progress(cat("Reading ", entry.key), 0, 1, options_.terminal);
      auto source = data.open(entry, [&](std::int64_t done, std::int64_t total) {
        progress.set_total(total);
        progress.update(done, "rows");
      });
      log_info(cat(entry.key, ":\n", source->summary().text()));
      const std::int64_t longest = source->summary().longest;
      if (config_.max_position_embeddings > 0 && longest > config_.max_position_embeddings)
        log_warning(cat(entry.key, ": the longest sample has ", longest, " tokens, beyond the ",
                        "model's max_position_embeddings ", config_.max_position_embeddings));
      return source;
    };
    source_ = open(recipe_.dataset);
    for (const DatasetEntry& entry : recipe_.validation_datasets)
      validation_.push_back({.name = entry.name, .source = open(entry)});
    if (recipe_.dataloader.shuffle && !source_->may_shuffle())
      fail(cat("dataloader.shuffle: ", recipe_.dataset.target,
               " gives its rows in order and cannot be shuffled; set it to false"));
    sampler_ = std::make_unique<data::PackSampler>(
        source_->size(),
        data::SamplerSettings{.global_batch_size = recipe_.step_scheduler.global_batch_size,
                              .seed = recipe_.seed,
                              .shuffle = recipe_.dataloader.shuffle,
                              .drop_last = recipe_.dataloader.drop_last});
    scheduler_ =
        std::make_unique<StepScheduler>(recipe_.step_scheduler, 1, sampler_->steps_per_epoch());
    const OptimizerSettings& o = recipe_.optimizer;
    schedule_ = std::make_unique<LrSchedule>(
        recipe_.lr_scheduler
            ? LrSchedule(*recipe_.lr_scheduler, o.lr, o.weight_decay, scheduler_->total_steps())
            : LrSchedule(o.lr, o.weight_decay));
  }

  // Says before anything is allocated that a run does not fit, and what would make it fit.
  void check_memory() {
    const RunRows rows = largest_rows(recipe_.step_scheduler.local_batch_size);
    const MemoryEstimate e = estimate_memory(config_, recipe_, dtype_, rows, {}, options_.device);
    const std::uint64_t available = available_memory(options_.device);
    planned_bytes_ = e.total();
    free_bytes_ = available;
    if (e.total() <= available) return;
    const std::string advice = memory_advice(
        config_, recipe_, dtype_, [&](std::int64_t packs) { return largest_rows(packs); },
        options_.device, available);
    const std::string text = cat(
        "not enough memory: ", io::human_bytes(e.total()), " needed (", io::human_bytes(e.weights),
        " weights, ", io::human_bytes(e.gradients), " gradients, ", io::human_bytes(e.optimizer),
        " optimizer state, ", io::human_bytes(e.saved + e.scratch), " activations of a row of ",
        rows.training.ids.size(), " tokens), ", io::human_bytes(available),
        " available; needs less: ", advice, advice.empty() ? "" : ", ",
        "a smaller packed_sequence.packed_sequence_size");
    // The CPU's estimate of what is free is rough: other processes and the page cache share it.
    if (options_.device == Device::kCuda) fail_machine(text);
    log_warning(text);
  }

  void make_engine() {
    Optimizer::check_settings(recipe_.optimizer, options_.device);
    check_memory();
    auto model = models::make_model(config_, dtype_, recipe_.model.latent_norm_eps);
    if (recipe_.model.backend.fake_balanced_gate) use_fake_gate(*model);
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
    nn::AttentionSettings& attention = engine_->model().attention();
    set_attention(recipe_, attention);
    if (checkpoint_)
      engine_->load(*checkpoint_, byte_progress("Loading weights"));
    else
      models::random_parameters(engine_->context(), all_parameters(engine_->model()),
                                config_.initializer_range, recipe_.seed);
    optimizer_ = std::make_unique<Optimizer>(engine_->model(), recipe_.optimizer, recipe_.seed,
                                             options_.device);
    log_info(fmt::format(
        "model: {} parameters trained, {} ({} of weights, {} of gradients, {} of optimizer state)",
        optimizer_->trainable_parameters(), name_of(dtype_),
        io::human_bytes(engine_->parameters().value_bytes()),
        io::human_bytes(engine_->parameters().gradient_bytes()),
        io::human_bytes(optimizer_->state_bytes())));
    log_info(attention_line(attention));
  }

  // Before memory is given out: the gates need no gradients then.
  void use_fake_gate(models::CausalLm& model) const {
    model.visit_routers([&](std::int64_t layer, nn::Router& router) {
      router.fake_noise = recipe_.model.backend.fake_gate_noise;
      router.fake_seed = recipe_.seed + static_cast<std::uint64_t>(layer);
      router.gate.weight.trainable = false;
    });
  }

  std::string attention_line(const nn::AttentionSettings& a) const {
    if (a.force)
      return cat("attention: dense kernel, selected keys as a mask beyond ", a.index_topk,
                 " tokens");
    return cat("attention: documents up to index_topk = ", a.index_topk,
               " tokens attend densely without the indexer, up to ", a.masked_max_tokens,
               " with selected keys as a mask, longer ones over gathered keys");
  }

  // Where the run may go on, as far as can be said before weights are read.
  void find_checkpoints() {
    at_.next_step = recipe_.step_scheduler.start_step;
    at_.cursor.epoch = recipe_.step_scheduler.start_epoch;
    at_.seed = recipe_.seed;
    at_.data_fingerprint = source_->fingerprint();
    at_.settings = recipe_.settings;
    if (!recipe_.checkpoint.enabled) return;
    for (const std::string& path : folder_.remove_leftovers())
      log_info(cat("removed what an interrupted run left: ", path));
    candidates_ = own(folder_.candidates(recipe_.checkpoint.restore_from));
  }

  // A folder of another run is refused; restore_from insists on what it names.
  std::vector<StepFolder> own(const std::vector<StepFolder>& candidates) const {
    if (!recipe_.checkpoint.restore_from.empty()) return candidates;
    return of_this_run(candidates, at_, folder_.root());
  }

  void resume() {
    at_.model_signature = model_signature(engine_->model(), engine_->context().stream);
    if (!recipe_.checkpoint.enabled) return;
    const std::string& from = recipe_.checkpoint.restore_from;
    candidates_ = own(candidates_);
    std::string note;
    const auto found = folder_.first_whole(candidates_, from, &note);
    if (!found && !candidates_.empty() && from.empty())
      fail(cat("checkpoint.checkpoint_dir: no checkpoint in ", folder_.root(), " is whole: ", note,
               "; name another folder, or remove them to start from the base model"));
    if (!note.empty()) log_warning(note);
    if (!found) return;
    const TrainingPosition saved = read_position(found->path);
    if (const std::string mismatch = difference(saved, at_); !mismatch.empty())
      log_warning(
          cat(found->path, ": ", mismatch, "; resumed because checkpoint.restore_from names it"));
    load_state(found->path, engine_->model(), *optimizer_, engine_->context().stream,
               byte_progress("Loading the checkpoint"));
    // What is saved from here on belongs to this run's data, model and seed.
    at_.next_step = saved.next_step;
    at_.updates = saved.updates;
    at_.cursor = saved.cursor;
    at_.lowest_val_loss = saved.lowest_val_loss;
    at_.has_val_loss = saved.has_val_loss;
    resumed_ = true;
    resumed_epoch_ = found->epoch;
    log_info(cat("resumed from ", found->path, ": ", at_.next_step, " steps done, epoch ",
                 at_.cursor.epoch));
    if (const std::string changed = changed_settings(saved, at_); !changed.empty())
      log_info(cat("settings that are not the checkpoint's: ", changed));
  }

  // Said before weights are read: a run without room for a checkpoint would lose its work.
  void check_disk() const {
    if (!recipe_.checkpoint.enabled) return;
    const MemoryEstimate e =
        estimate_memory(config_, recipe_, dtype_, SampleRow(1, 1), {}, Device::kCpu);
    const std::uint64_t stored = checkpoint_ ? checkpoint_->files().data_bytes() : 0;
    const CheckpointSizes sizes{.state = e.weights + e.optimizer,
                                .model = checkpoint_ && checkpoint_->quantized()
                                             ? 2 * stored  // FP8 becomes BF16
                                             : stored};
    const std::string warning = check_disk_space(
        folder_.root(),
        disk_need(recipe_.checkpoint, *scheduler_,
                  candidates_.empty() ? at_.next_step : candidates_.front().step + 1, sizes),
        io::free_bytes(folder_.root()));
    if (!warning.empty()) log_warning(warning);
  }

  // A published folder is never overwritten: said now, not when the first save comes to it.
  void check_folder_is_free() const {
    if (!recipe_.checkpoint.enabled) return;
    for (const StepFolder& f : folder_.occupied())
      if (f.step >= at_.next_step && f.step < scheduler_->total_steps() &&
          scheduler_->saves_checkpoint(f.step) && scheduler_->epoch_of(f.step) == f.epoch)
        fail(
            cat(f.path, " exists, and this run would save step ", f.step, " there; name another ",
                "checkpoint.checkpoint_dir (checkpoint.restore_from may name a checkpoint outside ",
                "of it), or remove it"));
  }

  ExitCode load_and_save() {
    if (!recipe_.checkpoint.enabled)
      fail("step_scheduler.max_steps is 0 and checkpoint.enabled is false: nothing to do");
    StepResult none;
    save(at_, resumed_epoch_, none, {}, true);
    return ExitCode::kOk;
  }

  // The longest packs of a data set, filled with the longest documents.
  static SampleRow largest_row(const data::PackSource& source, std::int64_t batch_size,
                               const char* key) {
    const std::int64_t tokens = std::max<std::int64_t>(1, source.max_tokens());
    const std::int64_t packs = std::min(batch_size, source.size().value_or(kLongestRow));
    if (packs > kLongestRow / tokens)
      fail(cat("a row of ", packs, " packs of ", tokens, " tokens is longer than ", kLongestRow,
               " tokens: use a smaller ", key, " or shorter samples"));
    return SampleRow(packs, tokens, source.summary().longest);
  }

  RunRows largest_rows(std::int64_t local_batch_size) const {
    RunRows rows(largest_row(*source_, local_batch_size, "step_scheduler.local_batch_size"));
    for (const ValidationSet& set : validation_)
      rows.validation.push_back(largest_row(
          *set.source, recipe_.validation_dataloader.batch_size.value_or(local_batch_size),
          "validation_dataloader.batch_size"));
    return rows;
  }

  // Memory for these rows; a row that needs more grows it by itself.
  void reserve_memory() {
    const RunRows rows = largest_rows(recipe_.step_scheduler.local_batch_size);
    MemoryPlan plan = plan_rows(*engine_, recipe_, rows);
    plan.scratch = std::max(plan.scratch, optimizer_->scratch_bytes(options_.device));
    engine_->reserve(plan);
    log_info(fmt::format(
        "activations: {} kept for the backward, {} scratch, for a row of {} tokens",
        io::human_bytes(plan.saved), io::human_bytes(plan.scratch), rows.training.ids.size()));
  }

  // Lives as long as the function does that it gives.
  models::ByteCount byte_progress(const char* what) const {
    const auto progress = std::make_shared<ByteProgress>(what, options_.terminal);
    return [progress](std::uint64_t done, std::uint64_t total) { progress->update(done, total); };
  }

  std::size_t memory_bytes() const {
    const MemoryPlan arenas = engine_->capacity();
    return engine_->parameters().value_bytes() + engine_->parameters().gradient_bytes() +
           optimizer_->state_bytes() + arenas.saved + arenas.scratch;
  }

  ExitCode train() {
    RunLog log(
        *metrics_, peak_tflops(recipe_, options_.device), [this] { return memory_bytes(); },
        options_.device == Device::kCuda);
    Progress progress("Training", at_.next_step, scheduler_->total_steps(), options_.terminal);
    const LoopParts parts{
        .engine = *engine_,
        .optimizer = *optimizer_,
        .source = *source_,
        .sampler = *sampler_,
        .validation = validation_,
        .scheduler = *scheduler_,
        .lr_schedule = *schedule_,
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
              return std::pair(model_flops(config_, p.bounds, p.label_tokens()),
                               automodel_flops(config_, p.tokens()));
            },
        .save = [&](const TrainingPosition& at, std::int64_t epoch, const StepResult& step,
                    const std::vector<ValidationResult>& validation,
                    bool is_last) { save(at, epoch, step, validation, is_last); }};
    const ExitCode code = run_loop(parts, at_);
    say_lowest_validation_loss();
    if (code == ExitCode::kPreempted)
      log_warning(cat("stopped by a signal after step ", at_.next_step - 1,
                      recipe_.checkpoint.enabled
                          ? "; a checkpoint is written, the same command goes on"
                          : "; checkpoint.enabled is false, nothing is saved"));
    return code;
  }

  void say_lowest_validation_loss() const {
    if (!recipe_.checkpoint.enabled || !at_.has_val_loss) return;
    if (const auto best = folder_.pointed_at("LOWEST_VAL"))
      log_info(fmt::format("lowest validation loss of a checkpoint: {:.4f}, {} (LOWEST_VAL)",
                           at_.lowest_val_loss, best->path));
  }

  // Once: whether the device's own count agrees with what was planned before the run.
  void report_device_memory() {
    if (options_.device != Device::kCuda || planned_bytes_ == 0) return;
    log_info(cat("GPU memory: ", io::human_bytes(free_bytes_ - cuda_device_info(0).free_bytes),
                 " in use, ", io::human_bytes(planned_bytes_), " planned, ",
                 io::human_bytes(free_bytes_), " were free"));
    planned_bytes_ = 0;
  }

  void save(const TrainingPosition& at, std::int64_t epoch, const StepResult& step,
            const std::vector<ValidationResult>& validation, bool is_last) {
    const CheckpointSettings& settings = recipe_.checkpoint;
    if (!settings.enabled) return;
    TrainingPosition position = at;
    const ValidationResult* best = nullptr;
    for (const ValidationResult& v : validation)
      if (v.name == settings.best_metric_key && std::isfinite(v.loss) &&
          (!position.has_val_loss || v.loss < position.lowest_val_loss))
        best = &v;
    if (best != nullptr) {
      position.has_val_loss = true;
      position.lowest_val_loss = best->loss;
    }
    const bool consolidated =
        checkpoint_ && (settings.save_consolidated == SaveConsolidated::kEvery ||
                        (settings.save_consolidated == SaveConsolidated::kFinal && is_last));
    models::SaveReport report;
    const StepFolder saved = folder_.save(
        epoch, std::max<std::int64_t>(0, at.next_step - 1), [&](const std::string& folder) {
          io::write_file(folder + "/config.yaml", recipe_.yaml);
          io::write_file(folder + "/losses.json", losses_json(step, validation));
          if (consolidated) report = export_model(cat(folder, "/", kExport));
          Checksums sums =
              save_state(folder, position, engine_->model(), *optimizer_, engine_->context().stream,
                         byte_progress("Saving the training state"));
          for (std::size_t i = 0; i < report.weight_files.size(); ++i)
            sums[cat(kExport, "/", report.weight_files[i])] = report.checksums[i];
          return sums;
        });
    at_.has_val_loss = position.has_val_loss;
    at_.lowest_val_loss = position.lowest_val_loss;
    if (best != nullptr) folder_.point("LOWEST_VAL", saved);
    log_info(cat("checkpoint: ", saved.path));
    for (const std::string& change : report.changes) log_info(cat("export: ", change));
    if (consolidated)
      log_info(cat("Hugging Face folder: ", saved.path, "/", kExport, " (",
                   io::human_bytes(report.bytes), ", ", report.tensors, " tensors)"));
    if (settings.max_recent_checkpoints)
      for (const std::string& path :
           folder_.retain(*settings.max_recent_checkpoints,
                          [&](const StepFolder& f) { return belongs_to_run(f, at_); }))
        log_info(cat("checkpoint removed (max_recent_checkpoints): ", path));
  }

  models::SaveReport export_model(const std::string& folder) {
    fs::create_directories(fs::path(folder).parent_path());
    return checkpoint_->save(folder, all_parameters(engine_->model()),
                             {.dtype = {},
                              .stream = engine_->context().stream,
                              .progress = byte_progress("Saving the model")});
  }

  static std::string losses_json(const StepResult& step,
                                 const std::vector<ValidationResult>& validation) {
    // JSON has no NaN.
    const auto number = [](double x) { return std::isfinite(x) ? io::Value(x) : io::Value(); };
    io::Value losses(
        io::Value::Object{{"train_loss", step.loss ? number(*step.loss) : io::Value()}});
    for (const ValidationResult& v : validation)
      losses.set(v.name == "default" ? "val_loss" : cat("val_loss_", v.name), number(v.loss));
    return io::to_json(losses, {.indent = 2}) + "\n";
  }

  const Recipe& recipe_;
  const TrainOptions& options_;
  CheckpointFolder folder_;
  std::optional<RunLock> lock_;
  std::vector<StepFolder> candidates_;  // checkpoints the run may go on from, the best first
  std::string model_folder_;
  models::GlmConfig config_;
  DType dtype_ = DType::kF32;
  std::optional<models::HfCheckpoint> checkpoint_;
  std::unique_ptr<data::PackSource> source_;
  std::vector<ValidationSet> validation_;
  std::unique_ptr<data::PackSampler> sampler_;
  std::unique_ptr<StepScheduler> scheduler_;
  std::unique_ptr<LrSchedule> schedule_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<MetricsLog> metrics_;
  TrainingPosition at_;
  bool resumed_ = false;
  std::int64_t resumed_epoch_ = 0;  // of the step folder
  std::uint64_t planned_bytes_ = 0, free_bytes_ = 0;
};

}  // namespace

Device choose_device(std::string* why) {
  return cuda_device_count(why) > 0 ? Device::kCuda : Device::kCpu;
}

int run_training(const Recipe& recipe, const TrainOptions& options) {
  return exit_status(Run(recipe, options).execute());
}

}  // namespace glmtune::train
