// What users report of recipes as YAML (user_reports.md 2f, 74 to 76): silent conversions, misspelt
// and repeated keys.
#include <gtest/gtest.h>

#include "train/recipe_support.h"

namespace glmtune::train {
namespace {

// 74: every spelling is the number, in a file and on the command line, quoted or not.
TEST(YamlReports, EverySpellingOfANumberIsThatNumber) {
  for (const char* text :
       {"1e-5", "1E-5", "1.0e-5", "1.e-5", ".00001", "0.00001", "+1e-5", "10e-6"}) {
    for (const std::string quote : {"", "'", "\""}) {
      const std::string spelled = quote + text + quote;
      EXPECT_EQ(parse(std::string(kSmallRecipe) + "  lr: " + spelled + "\n").recipe.optimizer.lr,
                1e-5)
          << spelled;
      EXPECT_EQ(small({"--optimizer.lr=" + spelled}).recipe.optimizer.lr, 1e-5) << spelled;
    }
  }
}

// 74: what is no number is named with its key and line.
TEST(YamlReports, WhatIsNoNumberIsNamedByKeyAndLine) {
  for (const char* text : {"1e", "1_000", "fast", "1e-5x", ".nan"})
    EXPECT_TRUE(contains(error_of(std::string(kSmallRecipe) + "  lr: " + text + "\n"),
                         "recipe.yaml:11: optimizer.lr is '" + std::string(text) + "'"))
        << text;
}

// 75: a misspelt section or key is an error with its line and the nearest known one.
TEST(YamlReports, AMisspeltKeyIsAnErrorWithTheNearestOne) {
  EXPECT_TRUE(contains(error_of(std::string(kSmallRecipe) + "optimzer: {lr: 1}\n"),
                       "recipe.yaml:11: unknown key optimzer; nearest: optimizer"));
  EXPECT_TRUE(contains(
      error_of(std::string(kSmallRecipe) + "packed_sequence:\n  packed_sequence_sizes: 1\n"),
      "recipe.yaml:12: unknown key packed_sequence.packed_sequence_sizes; nearest: "
      "packed_sequence_size"));
}

// 76: the last of two equal keys does not win silently.
TEST(YamlReports, ARepeatedKeyIsAnError) {
  EXPECT_TRUE(contains(error_of(std::string(kSmallRecipe) + "  lr: 1\n  lr: 2\n"),
                       "recipe.yaml:12: duplicate key optimizer.lr; first at recipe.yaml:11"));
}

// 76: words that YAML 1.1 turns into booleans and numbers stay strings where a string is wanted.
TEST(YamlReports, StringsStayStrings) {
  for (const char* text : {"off", "yes", "010", "12:30:45", "1e5", "0x10"}) {
    const RecipeFile file =
        parse(std::string(kSmallRecipe) + "checkpoint:\n  checkpoint_dir: " + text + "\n");
    EXPECT_EQ(file.recipe.checkpoint.checkpoint_dir, text);
  }
}

// 76: and are no booleans where a boolean is wanted; 010 is ten, 12:30:45 no number.
TEST(YamlReports, OtherTypesFollowYaml12) {
  EXPECT_TRUE(contains(small_error({"--checkpoint.enabled=off"}), "expected true or false"));
  EXPECT_EQ(small({"--seed=010"}).recipe.seed, 10u);
  EXPECT_TRUE(contains(small_error({"--seed=12:30:45"}), "expected a whole number"));
}

}  // namespace
}  // namespace glmtune::train
