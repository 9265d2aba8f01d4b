#include "io/json.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace glmtune::io {
namespace {

std::string message_of(std::string_view text) {
  try {
    (void)parse_json(text, "f.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Json, RoundTripKeepsOrderAndSpelling) {
  const std::string text =
      R"({"z": 1, "a": [true, false, null, -3, 2.5], "s": "q\"\\\n\u0001", "e": {}, "l": []})";
  EXPECT_EQ(to_json(parse_json(text, "f.json")), text);
}

TEST(Json, IndentedAsPython) {
  const Value v = parse_json(R"({"a":[1,2],"b":{"c":null},"d":[],"e":{}})", "f.json");
  EXPECT_EQ(to_json(v, {.indent = 2, .ensure_ascii = false}),
            "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {\n    \"c\": null\n  },\n"
            "  \"d\": [],\n  \"e\": {}\n}");
}

TEST(Json, FloatsAsPythonRepr) {
  const auto text = [](double d) { return to_json(Value(d)); };
  EXPECT_EQ(text(1.0), "1.0");
  EXPECT_EQ(text(-0.0), "-0.0");
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(1e-4), "0.0001");
  EXPECT_EQ(text(1e-5), "1e-05");
  EXPECT_EQ(text(1.5e-7), "1.5e-07");
  EXPECT_EQ(text(1e15), "1000000000000000.0");
  EXPECT_EQ(text(1e16), "1e+16");
  EXPECT_EQ(text(1.25e300), "1.25e+300");
  EXPECT_EQ(text(5e-324), "5e-324");
  EXPECT_EQ(text(9007199254740993.0), "9007199254740992.0");
  EXPECT_EQ(text(123456.789), "123456.789");
}

TEST(Json, IntegersBeyond64BitsBecomeDoubles) {
  EXPECT_TRUE(parse_json("9223372036854775807", "f").is_int());
  EXPECT_TRUE(parse_json("-9223372036854775808", "f").is_int());
  const Value big = parse_json("9223372036854775808", "f");
  EXPECT_FALSE(big.is_int());
  EXPECT_EQ(big.as_double(), 9223372036854775808.0);
  EXPECT_EQ(parse_json("1e-999", "f").as_double(), 0.0);
}

TEST(Json, EscapesAndUtf8) {
  EXPECT_EQ(parse_json(R"("\u00e9\ud83d\ude00\/")", "f").as_string(), "é😀/");
  EXPECT_EQ(to_json(Value("é😀\x7f"), {.indent = -1, .ensure_ascii = true}),
            R"("\u00e9\ud83d\ude00\u007f")");
  EXPECT_EQ(to_json(Value("é\x7f")), "\"é\x7f\"");
}

TEST(Json, BadTextIsRefusedWithLineAndColumn) {
  EXPECT_EQ(message_of("{\n  \"é\": 1,\n  \"é\": 2\n}"),
            "f.json: line 3, column 3: duplicate key \"é\"");
  EXPECT_EQ(message_of("[1, 2"),
            "f.json: line 1, column 6: expected ',' or ']' in an array, found the end of the text");
  EXPECT_EQ(message_of("{\"é\": tru}"), "f.json: line 1, column 7: expected a value, found 't'");
  EXPECT_EQ(message_of("[NaN]"), "f.json: line 1, column 2: NaN and Infinity are not JSON numbers");
  for (const char* bad : {"",
                          "[1,]",
                          "{\"a\":1,}",
                          "01",
                          "-",
                          "1.",
                          "1e",
                          "+1",
                          ".5",
                          "-Infinity",
                          "1e999",
                          "'a'",
                          "\"a",
                          "\"\t\"",
                          "\"\\x\"",
                          "\"\\u12\"",
                          "\"\\ud800\"",
                          "\"\\udc00\"",
                          "\"\\ud800\\u0041\"",
                          "\"\xff\"",
                          "\"\xc0\x80\"",
                          "\"\xed\xa0\x80\"",
                          "\"\xf5\x80\x80\x80\"",
                          "\"\xe2\x82",
                          "1 2",
                          "{1:2}",
                          "{\"a\" 1}",
                          "\xEF\xBB\xBF{}",
                          "nul",
                          "\"\\u-123\"",
                          "// c\n1"}) {
    EXPECT_EQ(message_of(bad).rfind("f.json: line ", 0), 0U) << bad;
  }
}

TEST(Json, DepthIsLimited) {
  EXPECT_EQ(message_of(std::string(500, '[') + std::string(500, ']')), "accepted");
  EXPECT_NE(message_of(std::string(100000, '[')).find("deeper than"), std::string::npos);
}

TEST(Json, DuplicatesInLargeObjects) {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) text += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_EQ(message_of(text + "\"last\":1}"), "accepted");
  EXPECT_NE(message_of(text + "\"k7\":1}").find("duplicate key \"k7\""), std::string::npos);
}

TEST(Json, CopiesShareUntilOneChanges) {
  Value a = parse_json(R"({"x": {"y": 1}})", "f");
  Value b = a;
  b.find("x")->set("y", 2);
  EXPECT_EQ(a.find("x")->find("y")->as_int(), 1);
  EXPECT_EQ(b.find("x")->find("y")->as_int(), 2);
  EXPECT_TRUE(b.erase("x"));
  EXPECT_FALSE(b.erase("x"));
  EXPECT_EQ(a.size(), 1U);
}

TEST(Json, WrongKindNamesWhatWasFound) {
  try {
    (void)Value("text").as_int();
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "expected integer, found string");
  }
  EXPECT_EQ(Value(3), Value(3.0));
  EXPECT_FALSE(Value(1) == Value(true));
}

}  // namespace
}  // namespace glmtune::io
