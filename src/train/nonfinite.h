#pragma once
// Where a loss or gradient that is not finite comes from.
#include <span>
#include <string>

#include "base/error.h"
#include "train/engine.h"
#include "train/optimizer.h"

namespace glmtune::train {

// A step that was applied has left weights that are not finite: nothing of it is saved.
struct NonFiniteWeights : Error {
  using Error::Error;
};

// Which parameters: those that training can change (training_changes()), or the others.
enum class Parameters { kAll, kTrained, kFrozen };

// The name of the first of them that is not finite; empty when all are. Waits for the device.
std::string first_nonfinite_parameter(Engine& engine, Optimizer& optimizer, Parameters which);

// The first of: a parameter that is not finite itself, the layer whose output is not in another
// forward pass over `rows`, a gradient in memory. In words; waits for the device.
std::string first_nonfinite(Engine& engine, Optimizer& optimizer,
                            std::span<const nn::RowLayout> rows);

}  // namespace glmtune::train
