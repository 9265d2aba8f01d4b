#pragma once
// Hub ids on the command line and in recipes: looked up in the local Hugging Face cache, and
// fetched from the hub where the cache lacks them.
#include <string>

#include "io/hub_cache.h"
#include "train/recipe.h"

namespace glmtune::apps {

// From the process's environment.
io::HubCache local_hub_cache();

// A path that exists as it is; otherwise a model's folder in the cache. Nothing is fetched.
std::string local_model(const std::string& path_or_id);

// The same, fetched where the cache lacks it: the whole model, or only what stands beside its
// weights (config, tokenizer, template). Progress is shown, and logged where there is no terminal.
std::string fetched_model(const std::string& path_or_id);
std::string fetched_tokenizer(const std::string& path_or_id);

// Fetches the recipe's model, so that the cache holds it. Throws Error naming the key.
void fetch_model(const train::Recipe& recipe);

// Fetches the recipe's data sets and their tokenizers, and replaces their ids by folders of the
// cache. Throws Error naming the recipe's section and the folder that was
// searched.
void fetch_data(train::Recipe& recipe);

}  // namespace glmtune::apps
