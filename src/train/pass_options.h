#pragma once
// What a recipe asks of the passes over a row; one place for the run, its plan and `check`.
#include "models/causal_lm.h"
#include "train/recipe.h"

namespace glmtune::train {

// Forward and backward as distributed.activation_checkpointing and the model section say.
models::PassOptions training_pass(const Recipe& recipe);
// model.backend: which path documents take (attn), and routers that do not look at tokens
// (fake_balanced_gate), whose gates are not trained. Before the model's gradients get memory.
void set_backend(const Recipe& recipe, models::CausalLm& model);

}  // namespace glmtune::train
