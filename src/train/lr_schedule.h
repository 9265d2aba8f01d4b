#pragma once
// The learning rate and weight decay of every step, as pure functions of the step number
// (Megatron's OptimizerParamScheduler semantics, docs/recipe.md lr_scheduler).
#include <cstdint>
#include <optional>

namespace glmtune::train {

enum class DecayStyle : std::uint8_t { kConstant, kLinear, kCosine, kInverseSquareRoot, kWsd };
enum class WsdDecayStyle : std::uint8_t { kExponential, kLinear, kCosine, kMinusSqrt };

// Recipe section lr_scheduler; an empty optional takes the value named beside it.
struct LrScheduleSettings {
  DecayStyle decay_style = DecayStyle::kCosine;
  std::optional<std::int64_t> warmup_steps;               // min(1000, total / 10)
  std::optional<std::int64_t> decay_steps;                // total
  std::optional<double> init_lr;                          // 0.1 · lr
  std::optional<double> max_lr;                           // lr
  std::optional<double> min_lr;                           // 0.01 · lr
  std::optional<double> start_weight_decay;               // the optimizer's
  std::optional<double> end_weight_decay;                 // the optimizer's
  std::optional<std::int64_t> weight_decay_incr_steps;    // total
  DecayStyle weight_decay_style = DecayStyle::kConstant;  // constant, linear or cosine
  std::optional<std::int64_t> wsd_decay_steps;            // required by style WSD
  WsdDecayStyle wsd_decay_style = WsdDecayStyle::kExponential;
};

// Throws Error, naming the recipe key, for settings that contradict each other or the most steps
// that the run can have.
void check_lr_settings(const LrScheduleSettings& settings, double lr, double weight_decay,
                       std::optional<std::int64_t> max_steps = std::nullopt);

class LrSchedule {
 public:
  // Constant: what a recipe without lr_scheduler gets.
  LrSchedule(double lr, double weight_decay);
  // total_steps: optimizer steps of the whole run. Throws Error for settings that contradict each
  // other, naming the recipe key.
  LrSchedule(const LrScheduleSettings& settings, double lr, double weight_decay,
             std::int64_t total_steps);

  // After `steps` optimizer steps: what the next step uses. learning_rate(0) is the first step's.
  double learning_rate(std::int64_t steps) const;
  double weight_decay(std::int64_t steps) const;
  std::int64_t warmup_steps() const { return warmup_; }

 private:
  double decayed(std::int64_t steps) const;
  double wsd_fraction(std::int64_t steps) const;

  DecayStyle style_ = DecayStyle::kConstant;
  WsdDecayStyle wsd_style_ = WsdDecayStyle::kExponential;
  std::int64_t warmup_ = 0, decay_ = 1, wsd_ = 0;
  double init_lr_ = 0, max_lr_ = 0, min_lr_ = 0;
  DecayStyle wd_style_ = DecayStyle::kConstant;
  std::int64_t wd_steps_ = 1;
  double start_wd_ = 0, end_wd_ = 0;
};

}  // namespace glmtune::train
