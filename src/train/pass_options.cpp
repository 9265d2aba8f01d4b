#include "train/pass_options.h"

namespace glmtune::train {
namespace {

models::Recompute recompute(ActivationCheckpointing setting) {
  switch (setting) {
    case ActivationCheckpointing::kOff:
      return models::Recompute::kNone;
    case ActivationCheckpointing::kSelective:
      return models::Recompute::kSelective;
    case ActivationCheckpointing::kFull:
      break;
  }
  return models::Recompute::kFull;
}

}  // namespace

models::PassOptions training_pass(const Recipe& recipe) {
  return {.backward = true,
          .recompute = recompute(recipe.distributed.activation_checkpointing),
          .count_load = recipe.model.gate_bias_update_factor != 0};
}

void set_attention(const Recipe& recipe, nn::AttentionSettings& settings) {
  if (recipe.model.backend.attn != AttentionBackend::kDense) return;
  settings.force = true;
  settings.forced = nn::AttentionPath::kMasked;
}

}  // namespace glmtune::train
