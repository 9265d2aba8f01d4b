#include "io/json_integers.h"

#include <gtest/gtest.h>

namespace glmtune::io {
namespace {

TEST(JsonIntegers, TheFirstThatDoesNotFitIsFound) {
  EXPECT_EQ(first_oversized_integer("9223372036854775808"), "9223372036854775808");
  EXPECT_EQ(first_oversized_integer("[1, -9223372036854775809]"), "-9223372036854775809");
  EXPECT_EQ(first_oversized_integer("{\"a\\\\\": 20000000000000000000}"), "20000000000000000000");
}

TEST(JsonIntegers, WhatFitsIsAFloatOrTextIsNone) {
  for (const char* json :
       {"9223372036854775807", "-9223372036854775808", "1e30", "20000000000000000000.5",
        "\"20000000000000000000\"", "{\"20000000000000000000\": \"\\\"20000000000000000000\"}",
        "\"\\\\\"", "", "[]"})
    EXPECT_EQ(first_oversized_integer(json), "") << json;
}

TEST(JsonIntegers, OfNamedMembersOnly) {
  const std::string row = "{\"id\": 20000000000000000000, \"m\": {\"id\": [1]}, \"t\": \"m\"}";
  EXPECT_EQ(first_oversized_integer(row, {"m", "t"}), "");
  EXPECT_EQ(first_oversized_integer(row, {"id"}), "20000000000000000000");
  EXPECT_EQ(first_oversized_integer("{\"m\": [{\"n\": 20000000000000000000}]}", {"m"}),
            "20000000000000000000");
}

TEST(JsonIntegers, AMemberIsFoundHoweverItsNameIsSpelled) {
  const std::string row = R"({"\u0061": 1, "mess\u0061ges": [20000000000000000000]})";
  EXPECT_EQ(first_oversized_integer(row, {"messages"}), "20000000000000000000");
  EXPECT_EQ(first_oversized_integer(row, {"a"}), "");
}

}  // namespace
}  // namespace glmtune::io
