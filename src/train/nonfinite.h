#pragma once
// Where a loss or gradient that is not finite comes from.
#include <span>
#include <string>

#include "train/engine.h"
#include "train/optimizer.h"

namespace glmtune::train {

// The first of: a parameter that is not finite itself, the layer whose output is not in another
// forward pass over `rows`, a gradient in memory. In words; waits for the device.
std::string first_nonfinite(Engine& engine, Optimizer& optimizer,
                            std::span<const nn::RowLayout> rows);

}  // namespace glmtune::train
