#include "models/registry.h"

#include "base/cat.h"
#include "models/glm_moe_dsa.h"

namespace glmtune::models {
namespace {

struct Entry {
  std::string_view model_type;
  std::unique_ptr<CausalLm> (*make)(const io::Value&, std::string_view, DType, double);
};

constexpr Entry kModels[] = {{.model_type = "glm_moe_dsa",
                              .make = [](const io::Value& config, std::string_view where,
                                         DType dtype, double eps) -> std::unique_ptr<CausalLm> {
                                return std::make_unique<GlmMoeDsa>(parse_glm_config(config, where),
                                                                   dtype, eps);
                              }}};

}  // namespace

std::unique_ptr<CausalLm> make_model(const io::Value& config, std::string_view where, DType dtype,
                                     double latent_norm_eps) {
  const io::Value* type = config.is_object() ? config.find("model_type") : nullptr;
  if (type != nullptr && type->is_string())
    for (const Entry& entry : kModels)
      if (entry.model_type == type->as_string())
        return entry.make(config, where, dtype, latent_norm_eps);
  // The one architecture there is explains best what it expects of a config.
  return kModels[0].make(config, where, dtype, latent_norm_eps);
}

}  // namespace glmtune::models
