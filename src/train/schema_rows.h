#pragma once
// The parts of the schema table, in the order of docs/recipe.md.
#include <span>

#include "train/schema.h"

namespace glmtune::train {

std::span<const KeyRow> run_rows();    // recipe, seed, steps, optimizer, checkpoint, loggers
std::span<const KeyRow> model_rows();  // model, distributed, peft and what changes the model
std::span<const KeyRow> data_rows();   // data sets, loaders, packing

}  // namespace glmtune::train
