#pragma once
// Hub ids on the command line and in recipes, looked up in the local Hugging Face cache.
#include <string>

#include "io/hub_cache.h"
#include "train/recipe.h"

namespace glmtune::apps {

// From the process's environment.
io::HubCache local_hub_cache();

// A path that exists as it is; otherwise a model's folder in the cache.
std::string local_model(const std::string& path_or_id);

// Replaces the hub ids of data sets and their tokenizers by folders of the cache. Throws Error
// naming the recipe's section and the folder that was searched.
void use_local_data(train::Recipe& recipe);

}  // namespace glmtune::apps
