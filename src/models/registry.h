#pragma once
// Models by config.json's model_type.
#include <memory>
#include <string_view>

#include "io/json.h"
#include "models/causal_lm.h"

namespace glmtune::models {

// Throws Error naming model_type and the known ones when it is another. `where` names the config.
std::unique_ptr<CausalLm> make_model(const io::Value& config, std::string_view where, DType dtype,
                                     double latent_norm_eps);

}  // namespace glmtune::models
