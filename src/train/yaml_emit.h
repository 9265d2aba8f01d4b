#pragma once
// YamlNode back to YAML text.
#include <string>

#include "train/yaml_document.h"

namespace glmtune::train {

// Block style. Scalars keep their text before interpolation; values of keys that hold secrets
// become "********".
std::string yaml_text(const YamlNode& root);

}  // namespace glmtune::train
