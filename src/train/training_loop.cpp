#include "train/training_loop.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/cat.h"
#include "ops/router.h"
#include "tensor/staging.h"
#include "train/batch_loader.h"
#include "train/metrics_log.h"
#include "train/nonfinite.h"
#include "train/pass_options.h"

namespace glmtune::train {
namespace {

double now_seconds() {
  using clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

// A step is queued without waiting for its numbers: loss and norm stay on the device, where they
// decide on the update, and arrive while the next step's passes are under way. They are known
// before that step's update is queued, so that a step that was not applied is counted in time.
class Loop {
 public:
  Loop(const LoopParts& parts, TrainingPosition& position)
      : p_(parts),
        at_(position),
        ctx_(p_.engine.context()),
        options_(training_pass(p_.recipe)),
        numbers_(2, ctx_.device),
        loader_({.source = p_.source,
                 .sampler = p_.sampler,
                 .engine = p_.engine,
                 .local_batch_size = p_.recipe.step_scheduler.local_batch_size,
                 .count_flops = p_.count_flops},
                at_.cursor, p_.scheduler.total_steps() - at_.next_step) {}

  ExitCode run() {
    try {
      return steps();
    } catch (...) {
      report_before_error();
      throw;
    }
  }

 private:
  // A step whose numbers are on their way.
  struct Pending {
    StepResult result;
    StepBatch batch;
  };
  enum class Settled : std::uint8_t { kGoOn, kGradientsLost, kStop };
  enum class Haste : std::uint8_t { kNone, kStopsForASignal };

  bool signal_has_come() const { return p_.stop_signal != nullptr && p_.stop_signal->load() != 0; }
  bool may_stop(std::int64_t epoch, std::int64_t step) const {
    return !p_.may_stop || p_.may_stop(epoch, step);
  }

  ExitCode steps() {
    start_clock();
    while (at_.next_step < p_.scheduler.total_steps()) {
      const std::int64_t step = at_.next_step;
      StepBatch batch = loader_.next();
      const std::int64_t epoch = batch.epoch;
      if (!queue_passes(batch)) return ExitCode::kNonFinite;
      queue_update(step, std::move(batch));
      if (arrived() && settle() == Settled::kStop) return ExitCode::kNonFinite;
      const bool ends = at_.next_step == p_.scheduler.total_steps();
      const bool asked = signal_has_come();
      bool stop = asked && may_stop(epoch, step);
      const bool validates = p_.scheduler.validates(step);
      bool saves = stop || p_.scheduler.saves_checkpoint(step);
      if ((validates || saves || ends) && settle() == Settled::kStop) return ExitCode::kNonFinite;
      const double passed = now_seconds();
      // A stop is in haste: the checkpoint comes first, also where the signal comes in between.
      std::vector<ValidationResult> validation;
      const bool is_left = validates && !validate(validation, Haste::kStopsForASignal);
      if (is_left && !asked) stop = may_stop(epoch, step);
      saves = saves || stop;
      if (saves) p_.save(last_.epoch, last_, validation, p_.scheduler.is_last(step));
      if (stop && !ends) return ExitCode::kPreempted;
      if (is_left && ends) {
        validate(validation, Haste::kNone);
        if (p_.add_validation) p_.add_validation(last_, validation);
      }
      if (!validates && !saves) continue;
      start_clock();  // neither is part of a step's own time
      between_ += now_seconds() - passed;
    }
    return ExitCode::kOk;
  }

  // A step's time is the device's own: the host looks at its numbers now and then only.
  void start_clock() {
    numbers_.start_clock(ctx_.stream);
    last_end_ = now_seconds();
  }

  void begin(const StepBatch& batch) {
    const auto labels = static_cast<double>(std::max<std::int64_t>(1, batch.label_tokens));
    options_.grad_scale = 1.0 / labels;
    p_.engine.parameters().start_gradients();
    p_.engine.parameters().zero_expert_load(ctx_.stream);
    p_.engine.zero_loss();
  }

  // Forward and backward of a batch, and in between the numbers of the step before, as soon as they
  // are there. False when these end the run.
  bool queue_passes(const StepBatch& batch) {
    const std::size_t rows = batch.label_tokens > 0 ? batch.rows.size() : 0;
    begin(batch);
    for (std::size_t i = 0; i <= rows;) {
      if (pending_ && (i == rows || arrived())) {
        const Settled settled = settle();
        if (settled == Settled::kStop) return false;
        if (settled == Settled::kGradientsLost) {
          begin(batch);
          i = 0;
          continue;
        }
      }
      if (i < rows) p_.engine.run(batch.rows[i], options_);
      ++i;
    }
    return true;
  }

  void queue_update(std::int64_t step, StepBatch batch) {
    if (batch.label_tokens > 0) {
      p_.engine.parameters().complete_gradients(ctx_.stream);
      p_.optimizer.measure(ctx_, p_.engine.loss(), p_.recipe.max_grad_norm);
      const std::array<Tensor, 2> wanted{p_.engine.loss(), p_.optimizer.sum_squares()};
      numbers_.request(wanted, ctx_.stream);
      p_.optimizer.update(ctx_, p_.lr_schedule.learning_rate(step),
                          p_.lr_schedule.weight_decay(step), at_.updates + 1);
      update_router_biases();
    }
    at_.cursor = batch.after;
    at_.next_step = step + 1;
    StepResult r{.step = step,
                 .epoch = batch.epoch,
                 .loss = {},
                 .lr = p_.lr_schedule.learning_rate(step + 1),
                 .tokens = batch.tokens,
                 .tokens_to_last_label = batch.tokens_to_last_label,
                 .label_tokens = batch.label_tokens,
                 .flops = batch.flops,
                 .automodel_flops = batch.automodel_flops};
    pending_ = Pending{.result = r, .batch = std::move(batch)};
  }

  void update_router_biases() {
    const double factor = p_.recipe.model.gate_bias_update_factor;
    if (factor == 0) return;
    p_.engine.model().visit_routers([&](std::int64_t, nn::Router& router) {
      glmtune::run(ctx_, ops::UpdateRouterBias{.bias = router.e_score_correction_bias.value,
                                               .load = router.load,
                                               .gate = p_.optimizer.clip_factor(),
                                               .factor = factor});
    });
  }

  bool arrived() const { return !p_.numbers_come_late && numbers_.arrived(); }

  // Takes the pending step's numbers; waits for them.
  StepResult take_numbers(const Pending& pending) {
    StepResult r = pending.result;
    r.applied = r.label_tokens > 0;
    if (r.applied) {
      r.loss = numbers_.value(0) / static_cast<double>(r.label_tokens);
      r.grad_norm = std::sqrt(numbers_.value(1));
      r.applied = std::isfinite(*r.loss) && std::isfinite(r.grad_norm);
    }
    const double end = now_seconds();
    r.seconds = r.label_tokens > 0 ? numbers_.seconds() : end - last_end_;
    r.seconds_in_all = r.seconds + between_;
    between_ = 0;
    last_end_ = end;
    return r;
  }

  // Writes down the pending step, if there is one, and acts on what it turned out to be.
  Settled settle() {
    if (!pending_) return Settled::kGoOn;
    const Pending pending = std::move(*pending_);
    pending_.reset();
    last_ = take_numbers(pending);
    if (last_.applied) ++at_.updates;
    if (last_.applied || last_.label_tokens == 0) {
      if (!last_.applied)
        p_.on_message(cat("step ", last_.step,
                          ": no token of the global batch has a label; weights unchanged (",
                          ++without_labels_, " such steps so far)"));
      p_.on_step(last_);
      return Settled::kGoOn;
    }
    const bool stops = p_.recipe.nonfinite_policy == NonfinitePolicy::kStop;
    if (stops) p_.on_step(last_);
    const std::string text =
        cat("step ", last_.step, ": rank 0: loss ", printed("%g", *last_.loss), ", gradient norm ",
            printed("%g", last_.grad_norm), ": not finite; ", origin(pending.batch),
            "; the step was not applied");
    if (stops) {
      p_.on_message(text);
      return Settled::kStop;
    }
    p_.on_message(cat(text, "; left out by nonfinite_policy: skip (", ++skipped_, " so far)"));
    p_.on_step(last_);
    return Settled::kGradientsLost;
  }

  // The step was not applied, so that its passes can be made again, with the gradients they gave.
  std::string origin(const StepBatch& batch) {
    begin(batch);
    for (const nn::RowLayout& row : batch.rows) p_.engine.run(row, options_);
    p_.engine.parameters().complete_gradients(ctx_.stream);
    return first_nonfinite(p_.engine, p_.optimizer, batch.rows);
  }

  // An error ends the run: the step before it is still written down where its numbers can be had.
  void report_before_error() {
    if (!pending_) return;
    try {
      const Pending pending = std::move(*pending_);
      pending_.reset();
      p_.on_step(take_numbers(pending));
    } catch (const std::exception&) {
      pending_.reset();  // the first error is the one to tell
    }
  }

  // Adds the results of the sets that have none yet; false where a signal left some out.
  bool validate(std::vector<ValidationResult>& results, Haste haste) {
    const auto stop = [&] { return haste == Haste::kStopsForASignal && signal_has_come(); };
    for (std::size_t i = results.size(); i < p_.validation.size(); ++i) {
      auto v = evaluate(p_.engine, p_.validation[i], validation_batch_size(p_.recipe), stop);
      if (!v) return false;
      v->step = last_.step;
      v->epoch = last_.epoch;
      v->lr = last_.lr;
      p_.on_validation(*v);
      results.push_back(*v);
    }
    return true;
  }

  const LoopParts& p_;
  TrainingPosition& at_;
  Context& ctx_;
  models::PassOptions options_;
  Readback numbers_;  // loss and squared norm of the pending step
  std::optional<Pending> pending_;
  StepResult last_;  // the last step written down
  double last_end_ = 0;
  double between_ = 0;  // seconds of validation and checkpoints since the last step
  std::int64_t without_labels_ = 0, skipped_ = 0;
  BatchLoader loader_;  // last: its thread ends first
};

}  // namespace

std::int64_t validation_batch_size(const Recipe& recipe) {
  return recipe.validation_dataloader.batch_size.value_or(recipe.step_scheduler.local_batch_size);
}

std::optional<ValidationResult> evaluate(Engine& engine, const ValidationSet& set,
                                         std::int64_t local_batch_size,
                                         const std::function<bool()>& stop) {
  ValidationResult v;
  v.name = set.name;
  const std::int64_t packs = set.source->size().value_or(0);
  if (packs == 0)
    fail(cat("validation set ", set.name, " has no end; give it a size (num_samples, a file)"));
  engine.zero_loss();
  for (std::int64_t i = 0; i < packs; i += local_batch_size) {
    if (stop && stop()) return std::nullopt;
    data::Pack row = set.source->pack(i);
    for (std::int64_t k = i + 1; k < std::min(packs, i + local_batch_size); ++k)
      row.append(set.source->pack(k));
    v.label_tokens += row.label_tokens();
    engine.run({.ids = row.ids, .labels = row.labels, .cu_seqlens = row.bounds}, {});
  }
  v.loss = engine.take_loss() / static_cast<double>(v.label_tokens);
  return v;
}

ExitCode run_loop(const LoopParts& parts, TrainingPosition& position) {
  return Loop(parts, position).run();
}

}  // namespace glmtune::train
