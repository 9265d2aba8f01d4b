#pragma once
// The commands, one .cpp each, with their settings already typed. Each returns an exit status
// (base/exit_code.h) and throws Error.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/verify.h"

namespace glmtune::apps {

// A recipe and the words of the command line that are settings of it.
struct RecipeArguments {
  std::string recipe;
  std::vector<std::string> overrides;
};

struct TrainCommand {
  RecipeArguments recipe;
  std::optional<std::int64_t> nproc_per_node;
};
int run(const TrainCommand& command);

struct CheckCommand {
  RecipeArguments recipe;
  std::optional<std::int64_t> world_size;
  bool json = false;
};
int run(const CheckCommand& command);

struct VerifyCommand {
  train::VerifyOptions options;
  std::int64_t nproc_per_node = 1, ep = 1, cp = 1;
};
int run(const VerifyCommand& command);

struct PreviewCommand {
  RecipeArguments recipe;
  std::int64_t rows = 3;
  bool tokens = false;  // a line a token
};
int run(const PreviewCommand& command);

struct InspectCommand {
  std::string path;
  bool json = false;
};
int run(const InspectCommand& command);

struct InitCommand {
  std::string config;
  std::string out;
  std::uint64_t seed = 42;
  std::string dtype;  // empty: the config's
};
int run(const InitCommand& command);

// docs/recipe.md on standard output; for developers.
struct DocsRecipeCommand {};
int run(const DocsRecipeCommand& command);

}  // namespace glmtune::apps
