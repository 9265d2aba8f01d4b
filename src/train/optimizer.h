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
  // of param_group_overrides that is no regular expression or matches no parameter.
  Optimizer(models::CausalLm& model, const OptimizerSettings& settings, std::uint64_t seed,
            Device device);

  // Global L2 norm of all gradients, and the factor that clips it to max_norm (0 or infinity: 1).
  // The norm is read back, so this waits for the device.
  double gradient_norm(Context& ctx, double max_norm);
  // One update with the clip factor of the last gradient_norm(); `step` counts from 1.
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
  double read_sum_squares(Context& ctx, std::span<const Tensor> items);

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
