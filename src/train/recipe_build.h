#pragma once
// The typed Recipe out of checked keys.
#include <string_view>

#include "train/recipe.h"
#include "train/schema_check.h"

namespace glmtune::train {

// Adds warnings and what does not run yet where that takes more than one key to see.
Recipe build_recipe(CheckedDocument& checked, const std::string& file);

// Whether a word of model.backend.attn names AttentionBackend::kNative.
bool is_native_attn(std::string_view name);

}  // namespace glmtune::train
