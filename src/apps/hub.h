#pragma once
// Hub ids on the command line and in recipes: looked up in the local Hugging Face cache, and
// fetched from the hub where the cache lacks them.
#include <string>

#include "io/hub_cache.h"
#include "train/recipe.h"

namespace glmtune::apps {

// From the process's environment.
io::HubCache local_hub_cache();

// Whether a text that names nothing on this machine can only be a path: it begins or ends like one,
// is no hub id, or lies in a folder that is there.
bool is_path(const std::string& text);
// "nope.jsonl: no such file or folder (relative to the working directory /home/me)"; of "~/x" that
// ~ is not expanded.
std::string no_such_path(const std::string& path);
// Throws Error, beginning with the recipe's place, for a path that does not exist. Hub ids pass.
void require_path(const std::string& place, const std::string& path_or_id);

// A path that exists as it is; otherwise a model's folder in the cache, of a branch, tag or commit.
// Nothing is fetched. Throws Error for a path that does not exist.
std::string local_model(const std::string& path_or_id, const std::string& revision = "main",
                        io::RepoKind wanted = io::RepoKind::kModel);

// The same, fetched where the cache lacks it: the whole model, or only what stands beside its
// weights (config, tokenizer, template). Progress is shown, and logged where there is no terminal.
std::string fetched_model(const std::string& path_or_id, const std::string& revision = "main");
std::string fetched_tokenizer(const std::string& path_or_id, const std::string& revision);

// Of a recipe's model what a run reads: config.json alone for from_config, unless its tokenizer is
// wanted too.
io::RepoKind wanted_of_model(const train::Recipe& recipe);

// Fetches that of the recipe's model, so that the cache holds it. Throws Error naming the place.
void fetch_model(const train::Recipe& recipe);

// Fetches the recipe's data sets and their tokenizers, and replaces their ids by folders of the
// cache. Throws Error naming the recipe's place and the folder that was searched.
void fetch_data(train::Recipe& recipe);
// The same from what is on this machine: nothing is fetched.
void use_local_data(train::DatasetEntry& entry);

}  // namespace glmtune::apps
