#pragma once
// The words of the command line, sorted into what belongs to the program and what to the recipe.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glmtune::apps {

// An option of a command; takes_value: --name VALUE or --name=VALUE.
struct OptionName {
  std::string_view name;  // without dashes; - and _ are the same
  bool takes_value = false;
};

struct SortedArguments {
  std::string recipe;                  // the first word that is no option and no value
  std::vector<std::string> own;        // the command's options, as "--name", "--name=value"
  std::vector<std::string> overrides;  // the rest, in order
};

// For commands that take a recipe: RECIPE.yaml (or -c, --config), their own options and settings of
// the recipe in any order. Throws Error for an option without its value, for two recipes, for words
// that are neither an option nor a value, and for options of another command.
SortedArguments sort_arguments(std::span<const std::string> words,
                               std::span<const OptionName> options,
                               std::string_view command = "glmtune");

}  // namespace glmtune::apps
