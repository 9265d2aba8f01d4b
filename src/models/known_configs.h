#pragma once
// Facts of the released GLM-5 family, so that a run can be planned without a download: the values
// of their config.json that change shapes, arithmetic or token ids.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace glmtune::models {

// A config.json of the model behind a hub id ("zai-org/GLM-5.2", "zai-org/GLM-5.3-BF16"); none for
// an id that is not known.
std::optional<io::Value> known_config(std::string_view hub_id);
std::vector<std::string> known_config_ids();

// Why an id whose name looks like the family's is not of it; empty for all others.
std::string other_architecture(std::string_view hub_id);

}  // namespace glmtune::models
