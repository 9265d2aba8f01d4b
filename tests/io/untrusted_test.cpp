#include "io/untrusted.h"

#include <gtest/gtest.h>

namespace glmtune::io {
namespace {

TEST(Untrusted, ControlCharactersOfBothSetsAreShownAsEscapes) {
  EXPECT_EQ(printable("a\x1b[2Jb\x7f"), "a\\x1b[2Jb\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J\xC2\x80"),
            "\\xc2\\x9b2J\\xc2\\x80");  // U+009B begins a command
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "\\x9b2J");  // so does its single byte
  EXPECT_EQ(printable("one\ntwo\t"), "one\\x0atwo\\x09");
  EXPECT_EQ(printable("one\ntwo\t\r", LineEnds::kKeep), "one\ntwo\t\\x0d");
  EXPECT_EQ(printable("\xC2\xA0 \xE2\x9F\xA6 \xF0\x9F\x98\x80"),
            "\xC2\xA0 \xE2\x9F\xA6 \xF0\x9F\x98\x80");
}

TEST(Untrusted, AListOfNamesIsBoundedAndPrintable) {
  EXPECT_EQ(printable_list({}), "");
  EXPECT_EQ(printable_list({"a", "b\x1b[2J", "c"}), "a, b\\x1b[2J, c");
  EXPECT_EQ(printable_list({"a", "b", "c", "d", "e"}), "a, b, c and 2 more");
}

TEST(Untrusted, PathsThatLeaveTheirFolderOrActOnATerminal) {
  for (const char* good :
       {"a", "a/b.txt", "data/train-00000-of-00002.parquet", "..a/b..", "\xC3\xA9"})
    EXPECT_TRUE(is_inside(good)) << good;
  for (const char* bad :
       {"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/.", "a\x1b", "a\xC2\x9B"})
    EXPECT_FALSE(is_inside(bad)) << bad;
  EXPECT_FALSE(is_inside(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace glmtune::io
