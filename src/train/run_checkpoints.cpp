#include "train/run_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "train/disk_space.h"
#include "train/log.h"
#include "train/memory_estimate.h"
#include "train/nonfinite.h"
#include "train/progress.h"
#include "train/resume.h"
#include "train/run_description.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;

// The Hugging Face folder of a step folder.
constexpr const char* kExport = "model/consolidated";

constexpr const char* kLosses = "losses.json";

std::string loss_key(const std::string& validation_set) {
  return validation_set == "default" ? "val_loss" : cat("val_loss_", validation_set);
}

std::string losses_json(const StepResult& step, const std::vector<ValidationResult>& validation) {
  // JSON has no NaN.
  const auto number = [](double x) { return std::isfinite(x) ? io::Value(x) : io::Value(); };
  io::Value losses(io::Value::Object{{"train_loss", step.loss ? number(*step.loss) : io::Value()}});
  for (const ValidationResult& v : validation) losses.set(loss_key(v.name), number(v.loss));
  return io::to_json(losses, {.indent = 2}) + "\n";
}

// A checkpoint's own validation loss of a set, where it was measured by the same numbers as the run
// at `now` does.
std::optional<double> own_validation_loss(const std::string& folder,
                                          const std::string& validation_set,
                                          const TrainingPosition& now) {
  try {
    if (!same_validation(read_position(folder), now)) return std::nullopt;
    const io::Value losses = io::read_json_file(cat(folder, "/", kLosses));
    const io::Value* own = losses.is_object() ? losses.find(loss_key(validation_set)) : nullptr;
    if (own == nullptr || !own->is_number()) return std::nullopt;
    return own->as_double();
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Why a Hugging Face folder could not be written. What was trained is saved without it first.
class ExportFailure {
 public:
  explicit ExportFailure(const std::exception& e)
      : why_(e.what()),
        is_users_(dynamic_cast<const Error*>(&e) != nullptr &&
                  dynamic_cast<const MachineError*>(&e) == nullptr) {}

  // goes_on: how_to_go_on().
  [[noreturn]] void raise(const std::string& checkpoint, const std::string& goes_on) const {
    const std::string text =
        cat("the Hugging Face folder could not be written: ", why_, "\n", checkpoint,
            " holds the training state, but no Hugging Face folder; ", goes_on,
            ". To write the folder of this step once the cause is gone:\n  ",
            export_command(checkpoint));
    if (is_users_) fail(text);
    fail_machine(text);
  }

 private:
  std::string why_;
  bool is_users_;
};

// Whether a run goes on from its newest checkpoint, whenever it is started.
bool takes_latest(const std::string& restore_from) {
  return restore_from.empty() || restore_from == "LATEST";
}

// Whether LOWEST_VAL is given to a checkpoint at all.
bool decides_lowest(const Recipe& recipe) {
  const std::vector<DatasetEntry>& sets = recipe.validation_datasets;
  return std::any_of(sets.begin(), sets.end(), [&](const DatasetEntry& set) {
    return set.name == recipe.checkpoint.best_metric_key;
  });
}

// The validation loss that decides, where it is lower than the lowest so far.
std::optional<double> lower_loss(const std::vector<ValidationResult>& validation,
                                 const std::string& best_metric_key, std::optional<double> lowest) {
  std::optional<double> lower;
  for (const ValidationResult& v : validation) {
    if (v.name != best_metric_key || !std::isfinite(v.loss)) continue;
    if (!lowest || v.loss < *lowest) lower = lowest = v.loss;
  }
  return lower;
}

// A checkpoint of no steps has the name of the one after the first step.
bool holds_the_start(const StepFolder& folder) {
  try {
    return read_position(folder.path).next_step == folder.step;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void check_restore_from(const Recipe& recipe) {
  const CheckpointSettings& c = recipe.checkpoint;
  if (c.enabled && !c.restore_from.empty())
    (void)CheckpointFolder(c.checkpoint_dir).candidates(c.restore_from);
}

RunCheckpoints::RunCheckpoints(const Recipe& recipe, const RunModel& model,
                               const data::PackSource& source, bool terminal)
    : recipe_(recipe),
      model_(model),
      terminal_(terminal),
      folder_(recipe.checkpoint.checkpoint_dir),
      facts_(run_facts(recipe, model.commit, source.chat_facts())) {
  at_.next_step = recipe.step_scheduler.start_step;
  at_.cursor.epoch = recipe.step_scheduler.start_epoch;
  at_.seed = recipe.seed;
  at_.data_fingerprint = source.fingerprint();
  at_.template_sha256 = source.chat_facts().template_sha256;
  at_.settings = recipe.settings;
}

// A folder of another run is refused; restore_from insists on what it names.
std::vector<StepFolder> RunCheckpoints::own(const std::vector<StepFolder>& candidates) const {
  if (!recipe_.checkpoint.restore_from.empty()) return candidates;
  return of_this_run(candidates, at_, folder_.root());
}

void RunCheckpoints::find() {
  if (!recipe_.checkpoint.enabled) {
    // Its log would take the place of the one that goes with them.
    if (const std::vector<StepFolder> saved = folder_.published(); !saved.empty())
      fail(cat("checkpoint.checkpoint_dir: ", folder_.root(), " holds checkpoints (",
               saved.back().path, "), which a run with checkpoint.enabled false neither goes on ",
               "from nor adds to; name another folder for its log"));
    return;
  }
  // What the recipe names is looked for before anything is cleared up.
  const std::string& from = recipe_.checkpoint.restore_from;
  if (!from.empty()) (void)folder_.candidates(from);
  if (const std::string vain = folder_.points_in_vain("LATEST");
      !vain.empty() && takes_latest(from))
    log_warning(cat(vain, " and is left out"));
  for (const std::string& path : folder_.remove_leftovers())
    log_info(cat("removed what an interrupted run left: ", path));
  candidates_ = own(folder_.candidates(from));
  const std::int64_t newest = candidates_.empty() ? -1 : candidates_.front().step;
  for (const StepFolder& f : folder_.occupied())
    if (const std::string damage = CheckpointFolder::damage(f); f.step > newest && !damage.empty())
      log_warning(cat(f.path, " is left out: ", damage));
}

// A place in other data means nothing in these.
data::SamplerCursor RunCheckpoints::cursor_after(const TrainingPosition& saved) const {
  return other_data(saved, at_)
             ? data::SamplerCursor{.epoch = recipe_.step_scheduler.start_epoch, .next = 0}
             : saved.cursor;
}

std::optional<RunCheckpoints::Planned> RunCheckpoints::planned(const RunData& data) const {
  if (candidates_.empty()) return Planned{.schedule = *data.scheduler, .first = at_.next_step};
  try {
    TrainingPosition saved = read_position(candidates_.front().path);
    saved.cursor = cursor_after(saved);
    return Planned{.schedule = schedule_from(data, saved), .first = saved.next_step};
  } catch (const Error&) {
    return std::nullopt;
  }
}

void RunCheckpoints::check_rates(const RunData& data) const {
  const std::optional<Planned> run = planned(data);
  if (run && run->first < run->schedule.total_steps())
    train::check_rates(recipe_, run->schedule.total_steps());
}

void RunCheckpoints::check_disk(const RunData& data) const {
  if (!recipe_.checkpoint.enabled) return;
  const Planned run = planned(data).value_or(
      Planned{.schedule = *data.scheduler,
              .first = candidates_.empty() ? 0 : candidates_.front().step + 1});
  const MemoryEstimate e =
      estimate_memory(model_.config, recipe_, model_.dtype, RowSize{}, {}, Device::kCpu);
  const std::uint64_t stored = model_.checkpoint ? model_.checkpoint->files().data_bytes() : 0;
  const CheckpointSizes sizes{.state = e.weights + e.optimizer,
                              .model = model_.checkpoint && model_.checkpoint->quantized()
                                           ? 2 * stored  // FP8 becomes BF16
                                           : stored};
  std::int64_t lie_there = 0;
  for (const StepFolder& f : folder_.published()) lie_there += belongs_to_run(f, at_) ? 1 : 0;
  const std::string warning =
      check_disk_space(folder_.root(),
                       disk_need(recipe_.checkpoint, run.schedule, run.first, sizes, lie_there,
                                 decides_lowest(recipe_)),
                       io::free_bytes(folder_.root()));
  if (!warning.empty()) log_warning(warning);
}

// The lowest loss is that of the checkpoint that LOWEST_VAL names, by the numbers of this recipe:
// a lower one would keep the link from ever naming a checkpoint of this run, a higher one (of where
// the run goes on from, before the linked one was saved) would move it to a worse checkpoint.
void RunCheckpoints::find_lowest_validation_loss(const StepFolder& from) {
  std::error_code ec;
  const bool is_here = fs::equivalent(fs::path(from.path).parent_path(), folder_.root(), ec);
  std::optional<StepFolder> best;
  const auto consider = [&](const StepFolder& f) {
    const auto loss = own_validation_loss(f.path, recipe_.checkpoint.best_metric_key, at_);
    if (!loss || (lowest_val_loss_ && *loss >= *lowest_val_loss_)) return;
    lowest_val_loss_ = loss;
    best = f;
  };
  // Another run's may lie in the folder, which this one goes on in or comes to.
  const auto linked = folder_.pointed_at("LOWEST_VAL");
  if (linked && belongs_to_run(*linked, at_)) consider(*linked);
  // Copies lose links: the best may be any of the run's checkpoints, also one after `from`.
  if (!best)
    for (const StepFolder& f : folder_.published())
      if (belongs_to_run(f, at_)) consider(f);
  // A process may end between a save and the link to it.
  if (is_here && belongs_to_run(from, at_)) consider(from);
  if (best && (!linked || best->path != linked->path)) to_be_linked_ = best;
}

void RunCheckpoints::link_lowest_validation_loss() {
  if (to_be_linked_) folder_.point("LOWEST_VAL", *to_be_linked_);
  to_be_linked_.reset();
}

std::string RunCheckpoints::how_to_go_on() const {
  const std::string& from = recipe_.checkpoint.restore_from;
  if (takes_latest(from)) return "the same command goes on from there";
  return cat("the same command without checkpoint.restore_from goes on from there (with it, it ",
             "begins at ", from, " again)");
}

// A command that is started again, by a scheduler of jobs, say, means what it said the first time.
void RunCheckpoints::warn_of_newer(const StepFolder& from, const TrainingPosition& saved) const {
  if (takes_latest(recipe_.checkpoint.restore_from)) return;
  const auto latest = folder_.pointed_at("LATEST");
  if (!latest || !belongs_to_run(*latest, at_) || !check_manifest(latest->path).state.empty())
    return;
  const std::int64_t done = read_position(latest->path).next_step;
  if (done > saved.next_step)
    log_warning(cat("checkpoint.restore_from names ", from.path, ", after ", saved.next_step,
                    " steps; this run's newest checkpoint, ", latest->path, ", after ", done,
                    ", is left aside. To go on from it, leave checkpoint.restore_from out"));
}

void RunCheckpoints::resume(Engine& engine, Optimizer& optimizer) {
  void* stream = engine.context().stream;
  at_.model_signature = model_signature(engine.model(), stream);
  if (!recipe_.checkpoint.enabled) return;
  const std::string& from = recipe_.checkpoint.restore_from;
  candidates_ = own(candidates_);
  std::string note;
  const auto found = folder_.first_whole(candidates_, from, &note);
  if (!found && !candidates_.empty() && takes_latest(from))
    fail(cat("checkpoint.checkpoint_dir: no checkpoint in ", folder_.root(), " is whole: ", note,
             "; name another folder, or remove them to start from the base model"));
  if (!note.empty()) log_warning(note);
  if (!found) return;
  for (const StepFolder& f : candidates_) {
    if (f.path == found->path) break;
    left_out_.push_back(f.path);
  }
  const TrainingPosition saved = read_position(found->path);
  if (const std::string mismatch = difference(saved, at_); !mismatch.empty())
    log_warning(
        cat(found->path, ": ", mismatch, "; resumed because checkpoint.restore_from names it"));
  warn_of_newer(*found, saved);
  load_state(found->path, engine.model(), optimizer, stream,
             byte_progress("Loading the checkpoint", terminal_));
  // What is saved from here on belongs to this run's data, model and seed.
  at_.next_step = saved.next_step;
  at_.updates = saved.updates;
  at_.cursor = cursor_after(saved);
  at_.next_lr = saved.next_lr;
  if (other_data(saved, at_))
    log_warning(cat("the data are not those of ", found->path, ", which had taken ",
                    saved.cursor.next, " packs of epoch ", saved.cursor.epoch,
                    " of its own: these begin at their first pack, in epoch ", at_.cursor.epoch,
                    "; the step numbers and the optimizer's state go on"));
  find_lowest_validation_loss(*found);
  resumed_from_ = *found;
  log_info(cat("resumed from ", found->path, ": ", at_.next_step, " steps done, epoch ",
               at_.cursor.epoch));
  const std::string changed = changed_settings(saved, at_);
  if (changed.empty()) return;
  const std::string text = cat("settings that are not the checkpoint's: ", changed);
  if (changed.find("lr_scheduler.") == std::string::npos &&
      changed.find("optimizer.lr ") == std::string::npos)
    log_info(text);
  else
    log_warning(cat(text, "; the learning rate is this recipe's from step ", at_.next_step,
                    " on, whatever it was before"));
}

void RunCheckpoints::warn_of_rate(const LrSchedule& schedule) const {
  if (!resumed()) return;
  if (const std::string jump = changed_rate(at_, schedule.learning_rate(at_.next_step));
      !jump.empty())
    log_warning(cat(resumed_from_.path, ": ", jump));
}

std::string RunCheckpoints::missing_export() const {
  std::error_code ec;
  if (!exports(true) || fs::exists(fs::path(resumed_from_.path) / kExport, ec)) return "";
  return cat(resumed_from_.path, " has no Hugging Face folder; this writes it:\n  ",
             export_command(resumed_from_.path));
}

void RunCheckpoints::check_folder_is_free(const StepScheduler& scheduler) const {
  if (!recipe_.checkpoint.enabled) return;
  const auto fail_where = [&](const std::string& what, const std::string& would) {
    fail(cat(what, ", and this run", would, "; name another checkpoint.checkpoint_dir ",
             "(checkpoint.restore_from may name a checkpoint outside of it), or move ",
             "what is in the way elsewhere"));
  };
  const std::vector<StepFolder> occupied = folder_.occupied();
  for (const StepFolder& f : occupied) {
    if (f.step < at_.next_step || f.step >= scheduler.total_steps() ||
        scheduler.epoch_of(f.step) != f.epoch)
      continue;
    if (scheduler.saves_checkpoint(f.step)) {
      const bool is_left_out =
          std::find(left_out_.begin(), left_out_.end(), f.path) != left_out_.end();
      if (const std::string damage = is_left_out ? "it is the damaged checkpoint that is left out"
                                                 : CheckpointFolder::damage(f);
          !damage.empty())
        fail(cat(f.path, ": ", damage, ", and this run, which would go on from step ",
                 at_.next_step, ", would save step ", f.step,
                 " there; mend it, move it elsewhere, ",
                 "or name another checkpoint.checkpoint_dir"));
      fail_where(cat(f.path, holds_the_start(f) ? " holds the model before the first step, which a "
                                                  "run with step_scheduler.max_steps 0 saved"
                                                : " exists"),
                 cat(" would save step ", f.step, " there"));
    }
  }
}

bool RunCheckpoints::can_save(std::int64_t epoch, std::int64_t step) const {
  if (!recipe_.checkpoint.enabled) return true;
  for (const StepFolder& f : folder_.occupied())
    if (f.epoch == epoch && f.step == step) {
      log_info(cat("a signal asks for the end; ", f.path, " exists, so the run ends a step later"));
      return false;
    }
  return true;
}

bool RunCheckpoints::exports(bool is_last) const {
  const SaveConsolidated when = recipe_.checkpoint.save_consolidated;
  return model_.checkpoint &&
         (when == SaveConsolidated::kEvery || (when == SaveConsolidated::kFinal && is_last));
}

models::SaveReport RunCheckpoints::export_model(Engine& engine, const std::string& folder) const {
  fs::create_directories(fs::path(folder).parent_path());
  return model_.checkpoint->save(folder, models::parameters_of(engine.model()),
                                 {.dtype = {},
                                  .stream = engine.context().stream,
                                  .progress = byte_progress("Saving the model", terminal_)});
}

void RunCheckpoints::check_loaded(Engine& engine, Optimizer& optimizer) const {
  std::string first = first_nonfinite_parameter(engine, optimizer, Parameters::kTrained);
  const bool is_saved = resumed() && !first.empty();
  if (first.empty()) first = first_nonfinite_parameter(engine, optimizer, Parameters::kFrozen);
  if (first.empty()) return;
  const std::string& base = model_.folder;
  fail(cat("the weights are not finite before the first step: ", first, " of ",
           is_saved ? resumed_from_.path : base,
           " has a NaN or an infinity; the files are damaged, or were written by a run that ",
           "diverged; ",
           is_saved ? "go on from another checkpoint (checkpoint.restore_from)"
                    : "fetch or convert the model again, or name another one"));
}

// Weights that a step has spoilt never replace good ones.
void RunCheckpoints::check_finite(Engine& engine, Optimizer& optimizer) const {
  const std::string first = first_nonfinite_parameter(engine, optimizer, Parameters::kTrained);
  if (first.empty()) return;
  const auto kept = folder_.pointed_at("LATEST");
  throw NonFiniteWeights(
      cat("the weights are not finite after step ", at_.next_step - 1, ", first ", first,
          "; no checkpoint is written", kept ? cat(", ", kept->path, " stays the newest") : "",
          "; a smaller optimizer.lr (", recipe_.optimizer.lr, "), an optimizer.eps (",
          recipe_.optimizer.eps, ") above 0 or a smaller max_grad_norm may help"));
}

void RunCheckpoints::save(Engine& engine, Optimizer& optimizer, std::int64_t epoch,
                          const StepResult& step, const std::vector<ValidationResult>& validation,
                          bool is_last) {
  if (!recipe_.checkpoint.enabled) return;
  check_finite(engine, optimizer);
  at_.next_lr = step.lr;
  write(engine, optimizer, epoch, step, validation, is_last);
}

void RunCheckpoints::write(Engine& engine, Optimizer& optimizer, std::int64_t epoch,
                           const StepResult& step, const std::vector<ValidationResult>& validation,
                           bool is_last) {
  const bool consolidated = exports(is_last);
  models::SaveReport report;
  std::optional<ExportFailure> failure;
  saved_ = folder_.save(
      epoch, std::max<std::int64_t>(0, at_.next_step - 1),
      [&](const std::string& folder) {
        io::write_file(folder + "/config.yaml", recipe_.yaml);
        io::write_file(cat(folder, "/", kLosses), losses_json(step, validation));
        if (consolidated) {
          try {
            report = export_model(engine, cat(folder, "/", kExport));
          } catch (const std::exception& e) {
            failure = ExportFailure(e);
            report = {};
            std::error_code gone;
            fs::remove_all(cat(folder, "/model"), gone);
          }
        }
        Checksums sums = save_state(folder, at_, engine.model(), optimizer, engine.context().stream,
                                    byte_progress("Saving the training state", terminal_));
        for (std::size_t i = 0; i < report.weight_files.size(); ++i)
          sums[cat(kExport, "/", report.weight_files[i])] = report.checksums[i];
        return sums;
      },
      facts_);
  log_info(cat("checkpoint: ", saved_.path));
  settle_saved(validation);
  // Behind the removal, which may give the next start the room that this export lacked.
  if (failure) failure->raise(saved_.path, how_to_go_on());
  for (const std::string& change : report.changes) log_info(cat("export: ", change));
  if (consolidated)
    log_info(cat("Hugging Face folder: ", saved_.path, "/", kExport, " (",
                 io::human_bytes(report.bytes), ", ", report.tensors, " tensors)"));
}

void RunCheckpoints::settle_saved(const std::vector<ValidationResult>& validation) {
  const CheckpointSettings& settings = recipe_.checkpoint;
  if (const auto lower = lower_loss(validation, settings.best_metric_key, lowest_val_loss_)) {
    lowest_val_loss_ = lower;
    folder_.point("LOWEST_VAL", saved_);
  }
  if (!settings.max_recent_checkpoints) return;
  for (const std::string& path :
       folder_.retain(*settings.max_recent_checkpoints,
                      [&](const StepFolder& f) { return may_be_removed(f); }))
    log_info(cat("checkpoint removed (max_recent_checkpoints): ", path));
}

void RunCheckpoints::add_validation(const StepResult& step,
                                    const std::vector<ValidationResult>& validation) {
  if (!recipe_.checkpoint.enabled) return;
  replace_listed_file(saved_.path, kLosses, losses_json(step, validation));
  settle_saved(validation);
}

// A damaged one neither counts nor goes; the one that checkpoint.restore_from names is what the
// same command begins at again.
bool RunCheckpoints::may_be_removed(const StepFolder& folder) const {
  const bool is_left_out =
      std::find(left_out_.begin(), left_out_.end(), folder.path) != left_out_.end();
  const bool is_named =
      !takes_latest(recipe_.checkpoint.restore_from) && folder.path == resumed_from_.path;
  return !is_left_out && !is_named && belongs_to_run(folder, at_);
}

void RunCheckpoints::save_unchanged(Engine& engine, Optimizer& optimizer) {
  if (recipe_.checkpoint.enabled) write(engine, optimizer, resumed_from_.epoch, {}, {}, true);
}

void RunCheckpoints::log_lowest_validation_loss() const {
  if (!recipe_.checkpoint.enabled || !lowest_val_loss_) return;
  if (const auto best = folder_.pointed_at("LOWEST_VAL"))
    log_info(fmt::format("lowest validation loss of a checkpoint: {:.4f}, {} (LOWEST_VAL)",
                         *lowest_val_loss_, best->path));
}

}  // namespace glmtune::train
