#include "train/training_loop.h"

#include <chrono>
#include <cmath>

#include "base/cat.h"
#include "ops/router.h"

namespace glmtune::train {
namespace {

double now_seconds() {
  using clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

RowInput input(const data::Pack& p) {
  return {.ids = p.ids, .labels = p.labels, .cu_seqlens = p.bounds};
}

// Tokens up to and including the last one with a label.
std::int64_t to_last_label(const data::Pack& p) {
  std::size_t n = p.labels.size();
  while (n > 0 && p.labels[n - 1] == data::kNoLabel) --n;
  return static_cast<std::int64_t>(n);
}

class Loop {
 public:
  Loop(const LoopParts& parts, TrainingPosition& position) : p_(parts), at_(position) {
    const auto& distributed = p_.recipe.distributed;
    options_.backward = true;
    options_.recompute = distributed.activation_checkpointing == ActivationCheckpointing::kOff
                             ? models::Recompute::kNone
                             : models::Recompute::kFull;
    options_.count_load = p_.recipe.model.gate_bias_update_factor != 0;
  }

  ExitCode run() {
    last_end_ = now_seconds();
    while (at_.next_step < p_.scheduler.total_steps()) {
      const std::int64_t step = at_.next_step;
      StepResult result = train_step(step);
      const bool finite = std::isfinite(result.loss.value_or(0)) && std::isfinite(result.grad_norm);
      if (!finite && p_.recipe.nonfinite_policy == NonfinitePolicy::kStop) {
        p_.on_step(result);
        p_.on_message(nonfinite_message(result));
        return ExitCode::kNonFinite;
      }
      p_.on_step(result);
      const bool stop = p_.stop_signal != nullptr && p_.stop_signal->load() != 0;
      std::vector<ValidationResult> validation;
      if (!stop && p_.scheduler.validates(step)) validation = validate(result);
      if (p_.scheduler.saves_checkpoint(step) || stop)
        p_.save(at_, result.epoch, result, validation, p_.scheduler.is_last(step));
      if (stop && at_.next_step < p_.scheduler.total_steps()) return ExitCode::kPreempted;
    }
    return ExitCode::kOk;
  }

 private:
  StepResult train_step(std::int64_t step) {
    const data::GlobalBatch batch = p_.sampler.batch(at_.cursor);
    StepResult r;
    r.step = step;
    r.epoch = at_.cursor.epoch;
    packs_.clear();
    for (const std::int64_t number : batch.packs) {
      packs_.push_back(p_.source.pack(number));
      const data::Pack& pack = packs_.back();
      r.tokens += pack.tokens();
      r.tokens_to_last_label += to_last_label(pack);
      r.label_tokens += pack.label_tokens();
      if (p_.count_flops) {
        const auto [honest, automodel] = p_.count_flops(pack);
        r.flops += honest;
        r.automodel_flops += automodel;
      }
    }
    p_.engine.parameters().zero_gradients(p_.engine.context().stream);
    p_.engine.parameters().zero_expert_load(p_.engine.context().stream);
    if (r.label_tokens > 0) forward_backward(r);
    update(r, step);
    at_.cursor = batch.after;
    at_.next_step = step + 1;
    r.lr = p_.lr_schedule.learning_rate(step + 1);
    const double end = now_seconds();
    r.seconds = end - last_end_;
    last_end_ = end;
    return r;
  }

  void forward_backward(StepResult& r) {
    const std::vector<data::Pack>& packs = packs_;
    const auto local = static_cast<std::size_t>(p_.recipe.step_scheduler.local_batch_size);
    options_.grad_scale = 1.0 / static_cast<double>(r.label_tokens);
    for (std::size_t i = 0; i < packs.size(); i += local) {
      data::Pack row = packs[i];
      for (std::size_t k = i + 1; k < std::min(packs.size(), i + local); ++k) row.append(packs[k]);
      p_.engine.run(input(row), options_);
    }
    r.loss = p_.engine.take_loss() / static_cast<double>(r.label_tokens);
  }

  void update(StepResult& r, std::int64_t step) {
    if (!r.loss) {
      r.applied = false;
      p_.on_message(cat("step ", step,
                        ": no token of the global batch has a label; weights unchanged (",
                        ++without_labels_, " such steps so far)"));
      return;
    }
    Context& ctx = p_.engine.context();
    r.grad_norm = p_.optimizer.gradient_norm(ctx, p_.recipe.max_grad_norm);
    if (!std::isfinite(*r.loss) || !std::isfinite(r.grad_norm)) {
      r.applied = false;
      if (p_.recipe.nonfinite_policy == NonfinitePolicy::kSkip)
        p_.on_message(cat(nonfinite_message(r), "; left out by nonfinite_policy: skip (",
                          ++skipped_, " so far)"));
      return;
    }
    p_.optimizer.update(ctx, p_.lr_schedule.learning_rate(step), p_.lr_schedule.weight_decay(step),
                        ++at_.updates);
    const double factor = p_.recipe.model.gate_bias_update_factor;
    if (factor != 0)
      p_.engine.model().visit_routers([&](std::int64_t, nn::Router& router) {
        glmtune::run(ctx, ops::UpdateRouterBias{.bias = router.e_score_correction_bias.value,
                                                .load = router.load,
                                                .factor = factor});
      });
  }

  // Where the trouble begins: a parameter that is not finite itself, else the first layer whose
  // output is not in another forward pass, else the first gradient.
  std::string first_nonfinite() {
    Context& ctx = p_.engine.context();
    std::string parameter, gradient;
    p_.engine.model().visit_parameters([&](nn::Parameter& p) {
      const auto bad = [&](const Tensor& t) {
        return t.defined() && !p_.optimizer.all_finite(ctx, t);
      };
      if (parameter.empty() && bad(p.value)) parameter = p.name;
      if (gradient.empty() && bad(p.grad)) gradient = p.name;
    });
    if (!parameter.empty()) return "the parameter " + parameter + " is not finite itself";
    std::int64_t layer = -1;
    models::Probe probe;
    probe.hidden = [&](std::int64_t n, Tensor x) {
      if (layer < 0 && !p_.optimizer.all_finite(ctx, x)) layer = n;
    };
    for (const data::Pack& pack : packs_)
      if (layer < 0) p_.engine.run(input(pack), {}, &probe);
    (void)p_.engine.take_loss();
    if (layer == 0) return "first in the embedding's output";
    if (layer > 0) return cat("first in the output of layer ", layer - 1);
    return gradient.empty() ? "every tensor by itself is finite"
                            : "first in the gradient of " + gradient;
  }

  std::string nonfinite_message(const StepResult& r) {
    return cat("step ", r.step, ": rank 0: loss ", r.loss.value_or(0), ", gradient norm ",
               r.grad_norm, ": not finite; ", first_nonfinite(), "; the step was not applied");
  }

  std::vector<ValidationResult> validate(const StepResult& step) {
    std::vector<ValidationResult> results;
    for (const ValidationSet& set : p_.validation) {
      ValidationResult v = evaluate(p_.engine, set,
                                    p_.recipe.validation_dataloader.batch_size.value_or(
                                        p_.recipe.step_scheduler.local_batch_size));
      v.step = step.step;
      v.epoch = step.epoch;
      v.lr = step.lr;
      p_.on_validation(v);
      results.push_back(v);
    }
    return results;
  }

  const LoopParts& p_;
  TrainingPosition& at_;
  models::PassOptions options_;
  std::vector<data::Pack> packs_;  // of the step
  double last_end_ = 0;
  std::int64_t without_labels_ = 0, skipped_ = 0;
};

}  // namespace

ValidationResult evaluate(Engine& engine, const ValidationSet& set, std::int64_t local_batch_size) {
  ValidationResult v;
  v.name = set.name;
  const std::int64_t packs = set.source->size().value_or(0);
  if (packs == 0)
    fail(cat("validation set ", set.name, " has no end; give it a size (num_samples, a file)"));
  for (std::int64_t i = 0; i < packs; i += local_batch_size) {
    data::Pack row = set.source->pack(i);
    for (std::int64_t k = i + 1; k < std::min(packs, i + local_batch_size); ++k)
      row.append(set.source->pack(k));
    v.label_tokens += row.label_tokens();
    engine.run(input(row), {});
  }
  v.loss = engine.take_loss() / static_cast<double>(v.label_tokens);
  return v;
}

ExitCode run_loop(const LoopParts& parts, TrainingPosition& position) {
  return Loop(parts, position).run();
}

}  // namespace glmtune::train
