#include "train/name_pattern.h"

#include <gtest/gtest.h>

#include "support/message_of.h"

namespace glmtune::train {
namespace {

bool found(const std::string& pattern, const std::string& name) {
  return NamePattern(pattern).found_in(name);
}

TEST(NamePattern, SearchesAsPythonsReSearch) {
  const std::string name = "model.layers.12.mlp.experts.gate_up_proj";
  for (const char* pattern : {"experts", "^model", "proj$", R"(layers\.(1[0-9]|2)\.)", "",
                              R"(layers\.\d+\.mlp)", "(?i)EXPERTS", R"(\bmlp\b)", "m.*?p"})
    EXPECT_TRUE(found(pattern, name)) << pattern;
  for (const char* pattern : {"^layers", "mlp$", R"(layers\.2\.)", "EXPERTS"})
    EXPECT_FALSE(found(pattern, name)) << pattern;
}

TEST(NamePattern, WhatIsNoExpressionSaysWhy) {
  const auto message = [](const char* pattern) {
    return test::message_of([&] { const NamePattern p(pattern); });
  };
  EXPECT_NE(message("[").find("not a regular expression: missing ]"), std::string::npos)
      << message("[");
  for (const char* pattern : {"(?=a)", "(?<!a)b", R"((a)\1)"})
    EXPECT_NE(message(pattern).find("look-around and back references"), std::string::npos)
        << message(pattern);
}

// Backtracking takes longer than anyone waits.
TEST(NamePattern, TakesTimeInProportionToTheName) {
  EXPECT_FALSE(found("(a*)*(a*)*(.*)*(.*)*zz", "model.layers.12.mlp.experts.gate_up_proj.weight"));
  EXPECT_FALSE(found("(a|aa)+$", std::string(5000, 'a') + "b"));
}

}  // namespace
}  // namespace glmtune::train
