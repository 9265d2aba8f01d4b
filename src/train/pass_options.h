#pragma once
// What a recipe asks of the passes over a row; one place for the run, its plan and `check`.
#include "models/causal_lm.h"
#include "train/recipe.h"

namespace glmtune::train {

// Forward and backward as distributed.activation_checkpointing and the model section say.
models::PassOptions training_pass(const Recipe& recipe);
// model.backend.attn: which path documents take.
void set_attention(const Recipe& recipe, nn::AttentionSettings& settings);

}  // namespace glmtune::train
