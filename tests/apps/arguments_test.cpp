#include "apps/arguments.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace glmtune::apps {
namespace {

using Words = std::vector<std::string>;

SortedArguments sorted(const Words& words) {
  static constexpr OptionName kOptions[] = {{"nproc-per-node", true}, {"json", false}};
  return sort_arguments(words, kOptions);
}
std::string error_of(const Words& words) {
  try {
    sorted(words);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Arguments, ComeInAnyOrder) {
  for (const Words& words :
       {Words{"r.yaml", "--nproc-per-node", "8", "--a.b=1", "--c", "2"},
        Words{"--nproc-per-node=8", "r.yaml", "--a.b=1", "--c", "2"},
        Words{"--nproc_per_node", "8", "--a.b=1", "--config", "r.yaml", "--c", "2"},
        Words{"-c", "r.yaml", "--a.b=1", "--c", "2", "--nproc_per_node=8"}}) {
    const SortedArguments out = sorted(words);
    EXPECT_EQ(out.recipe, "r.yaml");
    EXPECT_EQ(out.own, (Words{"--nproc-per-node=8"}));
    EXPECT_EQ(out.overrides, (Words{"--a.b=1", "--c", "2"}));
  }
}

TEST(Arguments, AFlagOfTheCommandTakesNoValue) {
  const SortedArguments out = sorted({"--json", "r.yaml"});
  EXPECT_EQ(out.own, (Words{"--json"}));
  EXPECT_EQ(out.recipe, "r.yaml");
}

TEST(Arguments, ValuesMayBeginWithOneDash) {
  EXPECT_EQ(sorted({"r.yaml", "--seed", "-1"}).overrides, (Words{"--seed", "-1"}));
}

TEST(Arguments, MistakesAreNamed) {
  EXPECT_NE(error_of({}).find("no recipe; expected a YAML file"), std::string::npos);
  EXPECT_NE(error_of({"--a.b", "r.yaml"}).find("r.yaml was taken as the value of the option"),
            std::string::npos);
  EXPECT_NE(error_of({"-c", "a.yaml", "--config=b.yaml"}).find("two recipes: a.yaml and b.yaml"),
            std::string::npos);
  EXPECT_NE(error_of({"r.yaml", "--nproc-per-node"}).find("needs a value"), std::string::npos);
  EXPECT_NE(error_of({"--config"}).find("needs a value"), std::string::npos);
}

}  // namespace
}  // namespace glmtune::apps
