#include "train/nonfinite.h"

#include "base/cat.h"
#include "train/training_state.h"

namespace glmtune::train {

std::string first_nonfinite_parameter(Engine& engine, Optimizer& optimizer, Parameters which) {
  std::string first;
  engine.model().visit_parameters([&](nn::Parameter& p) {
    if (which != Parameters::kAll && training_changes(p) != (which == Parameters::kTrained)) return;
    if (first.empty() && p.value.defined() && !optimizer.all_finite(engine.context(), p.value))
      first = p.name;
  });
  return first;
}

std::string first_nonfinite(Engine& engine, Optimizer& optimizer,
                            std::span<const nn::RowLayout> rows) {
  Context& ctx = engine.context();
  std::string gradient;
  engine.model().visit_parameters([&](nn::Parameter& p) {
    if (gradient.empty() && p.grad.defined() && !optimizer.all_finite(ctx, p.grad))
      gradient = p.name;
  });
  if (const std::string parameter = first_nonfinite_parameter(engine, optimizer, Parameters::kAll);
      !parameter.empty())
    return "the parameter " + parameter + " is not finite itself";
  std::int64_t layer = -1;
  models::Probe probe;
  probe.hidden = [&](std::int64_t n, Tensor x) {
    if (layer < 0 && !optimizer.all_finite(ctx, x)) layer = n;
  };
  for (const nn::RowLayout& row : rows)
    if (layer < 0) engine.run(row, {}, &probe);
  engine.zero_loss();
  if (layer == 0) return "first in the embedding's output";
  if (layer > 0) return cat("first in the output of layer ", layer - 1);
  return gradient.empty() ? "every tensor by itself is finite"
                          : "first in the gradient of " + gradient;
}

}  // namespace glmtune::train
