#pragma once
// Optimizer: Adam or AdamW over the trainable parameters of a model, with its state. Parameters
// without a gradient have no state and are never touched, weight decay included (model.md 4.5).
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/causal_lm.h"
#include "ops/optimizer.h"
#include "train/recipe.h"

namespace glmtune::train {

class Optimizer {
 public:
  // The model's parameters must have their gradients (ParameterStore). Throws Error for a pattern
  // of param_group_overrides that is no regular expression or decides for no parameter.
  Optimizer(models::CausalLm& model, const OptimizerSettings& settings, std::uint64_t seed,
            Device device);
  // Throws Error, naming the key, for settings that `device` has no kernel for: known before any
  // weight is loaded.
  static void check_settings(const OptimizerSettings& settings, Device device);
  // Throws Error for a pattern of param_group_overrides that decides for no parameter; the names of
  // a model are known before its weights are.
  static void check_overrides(models::CausalLm& model, const OptimizerSettings& settings);

  // Queues the squared L2 norm of all gradients and the factor that clips the norm to max_norm (0
  // or infinity: 1), which marks the step as not applied where the norm or `loss` (F64 [1], or {})
  // is not finite. Both stay on the device, F64 [1].
  void measure(Context& ctx, Tensor loss, double max_norm);
  Tensor sum_squares() const { return sum_squares_; }
  Tensor clip_factor() const { return clip_factor_; }
  // The same, and waits for the norm.
  double gradient_norm(Context& ctx, double max_norm);
  // Queues one update with the clip factor of the last measure(), nothing where it marks the step
  // as not applied; `step` counts from 1.
  void update(Context& ctx, double lr, double weight_decay, std::int64_t step);

  // False when any element is infinite or NaN (or its square overflows a double).
  bool all_finite(Context& ctx, Tensor t);
  // Scratch that the calls above take, in bytes.
  std::size_t scratch_bytes(Device target);

  std::int64_t trainable_parameters() const { return trainable_; }
  std::size_t state_bytes() const { return memory_.size(); }
  // Every state tensor by name: "<parameter>.exp_avg", ".exp_avg_sq", ".remainder".
  void visit_state(const std::function<void(const std::string&, Tensor)>& visit);

 private:
  void sum_squares_of(Context& ctx, std::span<const Tensor> items);  // into sum_squares_
  double read_sum_squares(Context& ctx) const;

  OptimizerSettings settings_;
  std::uint64_t seed_;
  Buffer memory_;
  std::vector<std::string> names_;
  std::vector<ops::AdamItem> items_;
  std::vector<Tensor> gradients_;
  OwnedTensor sum_squares_, clip_factor_;
  std::int64_t trainable_ = 0;
};

}  // namespace glmtune::train
