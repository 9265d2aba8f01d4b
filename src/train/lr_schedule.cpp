#include "train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::train {
namespace {

[[noreturn]] void reject(const char* key, const std::string& what) {
  fail(cat("lr_scheduler.", key, ": ", what));
}

// A run of no steps only loads and saves.
void check_warmup(std::int64_t warmup, std::int64_t steps) {
  if (steps > 0 && warmup > 0 && warmup >= steps)
    reject("lr_warmup_steps",
           cat(warmup, " leaves none of the run's ", steps, " steps to the decay; ",
               "lower lr_scheduler.lr_warmup_steps (now ", warmup,
               ") or make the run longer (step_scheduler.num_epochs, max_steps)"));
}

double cosine_fall(double ratio) {
  return 0.5 * (std::cos(std::numbers::pi * ratio) + 1);
}

}  // namespace

void check_lr_settings(const LrScheduleSettings& s, double lr, double weight_decay,
                       std::optional<std::int64_t> max_steps) {
  const double max_lr = s.max_lr.value_or(lr);
  const double min_lr = s.min_lr.value_or(0.01 * lr);
  const double init_lr = s.init_lr.value_or(0.1 * lr);
  if (min_lr > max_lr) reject("min_lr", cat(min_lr, " is above max_lr ", max_lr));
  if (init_lr > max_lr) reject("init_lr", cat(init_lr, " is above max_lr ", max_lr));
  if (s.warmup_steps && s.decay_steps && *s.warmup_steps >= *s.decay_steps)
    reject("lr_warmup_steps",
           cat(*s.warmup_steps, " leaves no step of lr_decay_steps ", *s.decay_steps));
  if (s.warmup_steps && !s.decay_steps && max_steps) check_warmup(*s.warmup_steps, *max_steps);
  if (s.decay_style == DecayStyle::kWsd) {
    if (!s.wsd_decay_steps) reject("wsd_decay_steps", "style WSD needs it");
    if (s.decay_steps && *s.wsd_decay_steps > *s.decay_steps)
      reject("wsd_decay_steps",
             cat(*s.wsd_decay_steps, " is more than lr_decay_steps ", *s.decay_steps));
  }
  const double start = s.start_weight_decay.value_or(weight_decay);
  const double end = s.end_weight_decay.value_or(weight_decay);
  if (start > end) reject("start_wd", cat(start, " is above end_wd ", end));
  if (s.weight_decay_style == DecayStyle::kConstant && start != end)
    reject("wd_incr_style", cat("constant, but start_wd is ", start, " and end_wd ", end,
                                "; choose linear or cosine"));
}

LrSchedule::LrSchedule(double lr, double weight_decay)
    : init_lr_(lr), max_lr_(lr), min_lr_(lr), start_wd_(weight_decay), end_wd_(weight_decay) {}

LrSchedule::LrSchedule(const LrScheduleSettings& s, double lr, double weight_decay,
                       std::int64_t total_steps)
    : style_(s.decay_style),
      wsd_style_(s.wsd_decay_style),
      warmup_(s.warmup_steps.value_or(std::min<std::int64_t>(1000, total_steps / 10))),
      decay_(s.decay_steps.value_or(std::max<std::int64_t>(total_steps, 1))),
      wsd_(s.wsd_decay_steps.value_or(0)),
      init_lr_(s.init_lr.value_or(0.1 * lr)),
      max_lr_(s.max_lr.value_or(lr)),
      min_lr_(s.min_lr.value_or(0.01 * lr)),
      wd_style_(s.weight_decay_style),
      wd_steps_(s.weight_decay_incr_steps.value_or(std::max<std::int64_t>(total_steps, 1))),
      start_wd_(s.start_weight_decay.value_or(weight_decay)),
      end_wd_(s.end_weight_decay.value_or(weight_decay)) {
  check_lr_settings(s, lr, weight_decay);
  if (!s.decay_steps) check_warmup(warmup_, total_steps);
  // A run without steps only saves what it loaded, whatever its schedule would be.
  if (style_ == DecayStyle::kWsd && total_steps > 0 && wsd_ > decay_)
    reject("wsd_decay_steps", cat(wsd_, " is more than the ", decay_, " steps of the decay"));
}

double LrSchedule::wsd_fraction(std::int64_t steps) const {
  const std::int64_t start = decay_ - wsd_;
  if (steps <= start) return 1;
  const double ratio = static_cast<double>(steps - start) / static_cast<double>(wsd_);
  switch (wsd_style_) {
    case WsdDecayStyle::kLinear:
      return 1 - ratio;
    case WsdDecayStyle::kCosine:
      return cosine_fall(ratio);
    case WsdDecayStyle::kMinusSqrt:
      return 1 - std::sqrt(ratio);
    case WsdDecayStyle::kExponential:
      break;
  }
  return 2 * std::pow(0.5, ratio) - 1;
}

double LrSchedule::decayed(std::int64_t steps) const {
  if (style_ == DecayStyle::kInverseSquareRoot) {
    const auto warmup = static_cast<double>(std::max<std::int64_t>(warmup_, 1));
    const auto now = static_cast<double>(std::max<std::int64_t>(steps, 1));
    return std::max(min_lr_, max_lr_ * std::sqrt(warmup) / std::sqrt(now));
  }
  const double ratio = static_cast<double>(steps - warmup_) / static_cast<double>(decay_ - warmup_);
  double fraction = 1 - ratio;
  if (style_ == DecayStyle::kCosine) fraction = cosine_fall(ratio);
  if (style_ == DecayStyle::kWsd) fraction = wsd_fraction(steps);
  return min_lr_ + fraction * (max_lr_ - min_lr_);
}

double LrSchedule::learning_rate(std::int64_t steps) const {
  if (warmup_ > 0 && steps <= warmup_)
    return init_lr_ +
           (max_lr_ - init_lr_) * static_cast<double>(steps) / static_cast<double>(warmup_);
  if (style_ == DecayStyle::kConstant) return max_lr_;
  return steps > decay_ ? min_lr_ : decayed(steps);
}

double LrSchedule::weight_decay(std::int64_t steps) const {
  if (wd_style_ == DecayStyle::kConstant || steps > wd_steps_) return end_wd_;
  const double ratio = static_cast<double>(steps) / static_cast<double>(wd_steps_);
  const double fraction = wd_style_ == DecayStyle::kLinear ? ratio : cosine_fall(1 - ratio);
  return start_wd_ + fraction * (end_wd_ - start_wd_);
}

}  // namespace glmtune::train
