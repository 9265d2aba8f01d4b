#include "apps/arguments.h"

#include <algorithm>
#include <array>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::apps {
namespace {

std::string with_hyphens(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

bool names_a_file(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

// Options that another command than the one at hand has.
struct OptionOwner {
  std::string_view name, command;
};
constexpr std::array kOwners{
    OptionOwner{"nproc-per-node", "glmtune RECIPE.yaml"},
    OptionOwner{"world-size", "glmtune check"}, OptionOwner{"json", "glmtune check"},
    OptionOwner{"rows", "glmtune preview"}, OptionOwner{"tokens", "glmtune preview"}};

void refuse_options_of_others(const std::string& name, std::string_view command) {
  for (const OptionOwner& owner : kOwners)
    if (owner.name == name)
      fail(cat("--", name, " is an option of `", owner.command, "`; see ", command, " --help"));
}

// A word that stands where only a setting could.
[[noreturn]] void refuse_word(const std::string& word, const std::string& recipe) {
  const std::string bare = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const std::size_t equals = bare.find('=');
  if (equals != std::string::npos && equals > 0)
    fail(cat("argument ", word, ": settings begin with two dashes: --", bare));
  if (names_a_file(word)) fail(cat("two recipes: ", recipe, " and ", word));
  fail(cat("argument ", word, " is neither a setting nor the value of one; settings are written ",
           "--section.key=value"));
}

}  // namespace

SortedArguments sort_arguments(std::span<const std::string> words,
                               std::span<const OptionName> options, std::string_view command) {
  SortedArguments out;
  const auto set_recipe = [&](const std::string& path) {
    if (!out.recipe.empty()) fail(cat("two recipes: ", out.recipe, " and ", path));
    out.recipe = path;
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-') || word == "-") {
      if (!out.recipe.empty()) refuse_word(word, out.recipe);
      set_recipe(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const bool is_short = !word.starts_with("--");
    const std::string name =
        with_hyphens(word.substr(is_short ? 1 : 2, equals - (is_short ? 1 : 2)));
    const auto value = [&](const std::string& what) {
      if (equals != std::string::npos) return word.substr(equals + 1);
      if (i + 1 == words.size() || words[i + 1].starts_with("--"))
        fail(cat(word, " needs a value: ", what));
      return words[++i];
    };
    if (name == "config" || (is_short && name == "c")) {
      set_recipe(value("a recipe (YAML file)"));
      continue;
    }
    const auto option = std::find_if(options.begin(), options.end(), [&](const OptionName& o) {
      return with_hyphens(o.name) == name;
    });
    if (option != options.end()) {
      out.own.push_back(option->takes_value ? cat("--", name, "=", value("see --help"))
                                            : cat("--", name));
      continue;
    }
    if (is_short) refuse_word(word, out.recipe);
    refuse_options_of_others(name, command);
    for (const OptionName& o : options)
      if (cat(name, "s") == with_hyphens(o.name))
        fail(cat("no option --", name, "; nearest: --", o.name));
    out.overrides.push_back(word);
    const bool has_value =
        equals == std::string::npos && i + 1 < words.size() && !words[i + 1].starts_with("--");
    if (has_value) out.overrides.push_back(words[++i]);
  }
  if (out.recipe.empty()) {
    for (const std::string& word : out.overrides)
      if (names_a_file(word))
        fail(cat("no recipe: ", word,
                 " was taken as the value of the option before it; write the "
                 "recipe first"));
    fail(cat("no recipe; expected a YAML file: ", command,
             " RECIPE.yaml [--section.key=value ...]; see ", command, " --help"));
  }
  return out;
}

}  // namespace glmtune::apps
