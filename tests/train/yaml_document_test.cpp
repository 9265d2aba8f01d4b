#include "train/yaml_document.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/cat.h"
#include "train/recipe_support.h"
#include "train/schema_scalar.h"
#include "train/yaml_emit.h"

namespace glmtune::train {
namespace {

std::string yaml_error(const std::string& text) {
  try {
    parse_yaml(text, "r.yaml");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(YamlDocument, KeepsOrderLinesAndQuotes) {
  const YamlNode root = parse_yaml("b: 1\na:\n  - x\n  - '2'\nc: {d: null}\n", "r.yaml");
  ASSERT_EQ(root.members.size(), 3u);
  EXPECT_EQ(root.members[0].first, "b");
  const YamlNode* a = root.find("a");
  ASSERT_TRUE(a != nullptr && a->is_list());
  EXPECT_FALSE(a->items[0].quoted);
  EXPECT_TRUE(a->items[1].quoted);
  EXPECT_EQ(a->items[1].where, "r.yaml:4");
  EXPECT_EQ(root.find("c")->key_where, "r.yaml:5");
  EXPECT_TRUE(root.find("c")->find("d")->is_null());
}

// user_reports 76
TEST(YamlDocument, RefusesDuplicateKeysAtAnyDepth) {
  EXPECT_EQ(yaml_error("a: 1\nb: 2\na: 3\n"), "r.yaml:3: duplicate key a; first at r.yaml:1");
  EXPECT_EQ(yaml_error("s:\n  t:\n    a: 1\n    a: 2\n"),
            "r.yaml:4: duplicate key s.t.a; first at r.yaml:3");
  EXPECT_NE(yaml_error("s: {a: 1, a: 2}\n"), "");
}

TEST(YamlDocument, NamesTheLineOfBrokenYaml) {
  EXPECT_TRUE(contains(yaml_error("a: 1\nb: [1, 2\n"), "not valid YAML"));
  EXPECT_TRUE(contains(yaml_error("a: 1\n\tb: 2\n"), "r.yaml:2"));
  EXPECT_TRUE(contains(yaml_error("a: 1\nb: 'it''s\nc: 2\n"), "r.yaml:2: the quote '"));
  EXPECT_TRUE(contains(yaml_error("a: \"x\\\"\n"), "is never closed"));
  EXPECT_EQ(yaml_error("a: 'it''s'\nb: \"\\\"\"\r\nc: ['', \"\"]\nd: |\n  it's\n"), "");
  EXPECT_TRUE(contains(yaml_error("a: b: c\n"), "r.yaml:1"));
}

// YAML takes it for a key; a switch that was meant would be lost.
TEST(YamlDocument, AsksForTheSpaceAfterAColonInBraces) {
  EXPECT_EQ(yaml_error("a: 1\nb: {enable_thinking:false}\n"),
            "r.yaml:2: {enable_thinking:false} is the key 'enable_thinking:false' without a value; "
            "write a space after the colon: {enable_thinking: false}");
  EXPECT_EQ(yaml_error("b: {'x:y': null, \"a\":1, c: }\nd:e: \n"), "");
  EXPECT_THROW(parse_argument_value("{enable_thinking:false}", "x"), Error);
  EXPECT_EQ(parse_yaml("a: {b:c}\n", "card", "a card").find("a")->members[0].first, "b:c");
}

TEST(YamlDocument, RefusesWhatIsNoRecipe) {
  EXPECT_TRUE(contains(yaml_error(""), "r.yaml: is empty"));
  EXPECT_TRUE(contains(yaml_error("# nothing\n"), "r.yaml: is empty"));
  EXPECT_TRUE(contains(yaml_error("- a\n- b\n"), "a recipe is a YAML map"));
  EXPECT_TRUE(contains(yaml_error("hello\n"), "found 'hello'"));
  EXPECT_TRUE(contains(yaml_error("a: 1\n---\nb: 2\n"), "a second YAML document"));
  EXPECT_TRUE(contains(yaml_error("a: 1\nb: \xFF\n"), "r.yaml:2: not UTF-8"));
  EXPECT_TRUE(contains(yaml_error(std::string("a: 1\nb: \0\n", 10)), "r.yaml:2"));
  EXPECT_TRUE(contains(yaml_error("a: !!python/object:os.system x\n"), "tag"));
  EXPECT_TRUE(contains(yaml_error("[a, b]: 1\n"), "a key must be a word"));
}

TEST(YamlDocument, FollowsAliasesAndMergeKeys) {
  const YamlNode root =
      parse_yaml("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\ncopy: *b\n", "r.yaml");
  EXPECT_EQ(root.find("use")->find("x")->text, "1");
  EXPECT_EQ(root.find("use")->find("y")->text, "3");
  EXPECT_EQ(root.find("copy")->find("y")->text, "2");
}

TEST(YamlDocument, BoundsAliasesOfAliases) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string alias = cat("*a", i - 1);
    text += cat("a", i, ": &a", i, " [", alias);
    for (int k = 0; k < 9; ++k) text += ", " + alias;
    text += "]\n";
  }
  EXPECT_TRUE(contains(yaml_error(text), "more than"));
}

TEST(YamlDocument, BoundsDepth) {
  EXPECT_NE(yaml_error(cat("a: ", std::string(20000, '['), std::string(20000, ']'), "\n")), "");
}

TEST(YamlDocument, MissingFilesAndFoldersAreNamed) {
  const auto message = [](const std::string& path) {
    try {
      read_text_file(path);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_TRUE(contains(message("/no/such/recipe.yaml"), "/no/such/recipe.yaml: no such file"));
  EXPECT_TRUE(contains(message("/tmp"), "/tmp: is a folder"));
}

TEST(YamlDocument, EmitsWhatItReads) {
  const std::string text =
      "a: 1\nb:\n  - x\n  -\n    c: d\nq: \"01\"\ne: {}\nn: null\nt: train[:10]\n"
      "w: \"*.self_attn.o_proj\"\nm: \"two\\nlines\"\nf: []\nneg: -1\n";
  const YamlNode once = parse_yaml(text, "r.yaml");
  const std::string emitted = yaml_text(once);
  const YamlNode twice = parse_yaml(emitted, "r.yaml");
  EXPECT_EQ(io::to_json(value_of(once)), io::to_json(value_of(twice))) << emitted;
}

TEST(YamlScalars, NumbersAreNumbersHoweverSpelled) {
  // user_reports 74
  for (const char* text :
       {"1e-5", "1E-5", "1.0e-5", "0.00001", ".00001", "1.e-5", "+1e-5", "10e-6"})
    EXPECT_EQ(number_from_text(text), 1e-5) << text;
  EXPECT_EQ(number_from_text("1e5"), 1e5);
  for (const char* text :
       {"1e", "e5", "1_0", "0x", "--1", "1.2.3", "nan", ".nan", "inf", "1e-5x", "", " 1", "1e999"})
    EXPECT_EQ(number_from_text(text), std::nullopt) << text;
  EXPECT_EQ(int_from_text("010"), 10);
  EXPECT_EQ(int_from_text("0x10"), 16);
  EXPECT_EQ(int_from_text("0o10"), 8);
  EXPECT_EQ(int_from_text("1e5"), 100000);
  EXPECT_EQ(int_from_text("1.5"), std::nullopt);
  EXPECT_EQ(int_from_text("12:30:45"), std::nullopt);
  EXPECT_EQ(int_from_text("9223372036854775807"), 9223372036854775807LL);
  EXPECT_EQ(int_from_text("9223372036854775808"), std::nullopt);
}

TEST(YamlScalars, UntypedValuesFollowYaml12) {
  const YamlNode root = parse_yaml(
      "a: yes\nb: off\nc: 010\nd: 12:30:45\ne: true\nf: 1e-5\ng: '0'\nh: ~\ni: None\nj: 0o7\n",
      "r.yaml");
  EXPECT_EQ(io::to_json(value_of(root)),
            "{\"a\": \"yes\", \"b\": \"off\", \"c\": 10, \"d\": \"12:30:45\", \"e\": true, "
            "\"f\": 1e-05, \"g\": \"0\", \"h\": null, \"i\": null, \"j\": 7}");
}

TEST(YamlArguments, ListsMapsTuplesAndQuotes) {
  EXPECT_EQ(io::to_json(value_of(parse_argument_value("[0.9,0.95]", "x"))), "[0.9, 0.95]");
  EXPECT_EQ(io::to_json(value_of(parse_argument_value("(0.9, 0.95)", "x"))), "[0.9, 0.95]");
  EXPECT_EQ(io::to_json(value_of(parse_argument_value("{'a': 1}", "x"))), "{\"a\": 1}");
  EXPECT_EQ(io::to_json(value_of(parse_argument_value("'1'", "x"))), "\"1\"");
  EXPECT_EQ(io::to_json(value_of(parse_argument_value("train[:10]", "x"))), "\"train[:10]\"");
  EXPECT_EQ(io::to_json(value_of(parse_argument_value("a: b # c", "x"))), "\"a: b # c\"");
}

}  // namespace
}  // namespace glmtune::train
