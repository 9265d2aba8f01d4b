#pragma once
// From a recipe file and the command line to a Recipe: read, override, interpolate, check, fill in.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/recipe.h"
#include "train/schema_check.h"
#include "train/yaml_document.h"

namespace glmtune::train {

struct RecipeFile {
  Recipe recipe;
  CheckedDocument checked;  // every key with its value; warnings and what does not run yet
  std::string yaml;         // the recipe with its overrides, without secrets: config.yaml of a run
};

// overrides: the words of the command line that are no options of the program.
RecipeFile read_recipe(const std::string& path, std::span<const std::string> overrides,
                       const Environment& environment);
// The same from text; `file` begins messages.
RecipeFile parse_recipe(const std::string& text, const std::string& file,
                        std::span<const std::string> overrides, const Environment& environment);

// The benchmark recipe's mock data have ids of the whole vocabulary of its config.
void use_vocabulary(RecipeFile& file, std::int64_t vocab_size);

// "not runnable yet: distributed.pp_size 4, peft"; empty when everything runs.
std::string not_runnable_line(const CheckedDocument& checked);

// "; what runs: --distributed.pp_size 1 --peft null", for the end of that line; empty as it is.
std::string runs_with(const CheckedDocument& checked);

// Where the recipe names a vendor's library: what runs here instead, a line a key.
std::vector<std::string> backend_choices(const CheckedDocument& checked);

// {"seed": 1234, "optimizer.betas": [0.9, 0.999], ...}: every key with its value.
io::Value resolved_keys(const CheckedDocument& checked);
// The same as lines "optimizer.lr: 1e-05", those the recipe does not set marked as defaults.
std::string resolved_lines(const CheckedDocument& checked);

}  // namespace glmtune::train
