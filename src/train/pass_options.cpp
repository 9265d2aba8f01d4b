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

void set_backend(const Recipe& recipe, models::CausalLm& model) {
  const BackendSettings& backend = recipe.model.backend;
  if (backend.attn == AttentionBackend::kDense) {
    model.attention().force = true;
    model.attention().forced = nn::AttentionPath::kMasked;
  }
  if (!backend.fake_balanced_gate) return;
  model.visit_routers([&](std::int64_t layer, nn::Router& router) {
    router.fake_noise = backend.fake_gate_noise;
    router.fake_seed = recipe.seed + static_cast<std::uint64_t>(layer);
    router.gate.weight.trainable = false;
  });
}

}  // namespace glmtune::train
