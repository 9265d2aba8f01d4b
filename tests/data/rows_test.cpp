#include "data/rows.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace glmtune::data {
namespace {

namespace fs = std::filesystem;

class RowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(::testing::TempDir()) /
        ("rows_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& text, const std::string& name = "a.jsonl") {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  static std::vector<std::int64_t> values(const Rows& rows) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < rows.size(); ++i) out.push_back(rows.row(i).find("v")->as_int());
    return out;
  }

  static std::string error_of(const std::string& path, std::int64_t row) {
    try {
      Rows({path}, {}).row(row);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  static std::string numbered(int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "{\"v\": " + std::to_string(i) + "}\n";
    return text;
  }

  fs::path folder_;
};

// user_reports.md 2g, line 13: CRLF and blank lines; line numbers stay physical.
TEST_F(RowsTest, BlankLinesAreSkippedAndLineNumbersStayPhysical) {
  const std::string path = file("{\"v\": 1}\r\n\r\n  \n{\"v\": 2}\r\n\n\n");
  const Rows rows({path}, {});
  EXPECT_EQ(values(rows), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(rows.where(1), path + ":4");
}

// user_reports.md 71 and 2g, line 14.
TEST_F(RowsTest, BrokenRowsAreNamedByFileLineAndColumn) {
  const std::string path = file("{\"v\": 1}\n{\"v\": }\n[1]\n{\"v\": \"");
  EXPECT_NE(error_of(path, 1).find(path + ":2: column 7"), std::string::npos) << error_of(path, 1);
  EXPECT_NE(error_of(path, 2).find(path + ":3: a row must be an object, found array"),
            std::string::npos)
      << error_of(path, 2);
  EXPECT_NE(error_of(path, 3).find(path + ":4: column"), std::string::npos) << error_of(path, 3);
}

// user_reports.md 72: strict UTF-8, a byte order mark is tolerated, lone surrogates are errors.
TEST_F(RowsTest, EncodingIsStrictUtf8) {
  EXPECT_EQ(values(Rows({file("\xEF\xBB\xBF{\"v\": 3}\n")}, {})), (std::vector<std::int64_t>{3}));
  EXPECT_NE(error_of(file("{\"v\": \"\xFF\"}\n"), 0).find("UTF-8"), std::string::npos);
  EXPECT_NE(error_of(file("{\"v\": \"\\ud83d\"}\n"), 0).find(":1: column"), std::string::npos);
}

// user_reports.md 71: long lines work.
TEST_F(RowsTest, ALineOfManyMegabytesIsRead) {
  const std::string text(40U << 20, 'x');
  const Rows rows({file("{\"v\": \"" + text + "\"}\n")}, {});
  EXPECT_EQ(rows.row(0).find("v")->size(), text.size());
}

TEST_F(RowsTest, SeveralFilesAndJsonArraysAndGzip) {
  const std::string a = file(numbered(2));
  const std::string b = file("[{\"v\": 7},\n {\"v\": 8}]", "b.json");
  const std::string c = (folder_ / "c.jsonl.gz").string();
  gzFile gz = gzopen(c.c_str(), "wb");
  gzputs(gz, "{\"v\": 9}\n");
  gzclose(gz);
  const Rows rows({a, b, c}, {});
  EXPECT_EQ(values(rows), (std::vector<std::int64_t>{0, 1, 7, 8, 9}));
  EXPECT_EQ(rows.where(3), b + ": row 2");
}

TEST_F(RowsTest, ATruncatedGzipFileIsAnError) {
  const std::string path = (folder_ / "c.jsonl.gz").string();
  gzFile gz = gzopen(path.c_str(), "wb");
  for (int i = 0; i < 5000; ++i) gzprintf(gz, "{\"v\": %d}\n", i * 7919);
  gzclose(gz);
  fs::resize_file(path, fs::file_size(path) / 2);
  EXPECT_NE(error_of(path, 0).find("damaged gzip"), std::string::npos) << error_of(path, 0);
}

TEST_F(RowsTest, MembersOfAGzipFileFollowEachOtherAndNothingElseDoes) {
  const std::string path = (folder_ / "c.jsonl.gz").string();
  for (const char* mode : {"wb", "ab"}) {
    gzFile gz = gzopen(path.c_str(), mode);
    for (int i = 0; i < 300'000; ++i) gzputs(gz, "{\"v\": 1}\n");
    gzclose(gz);
  }
  EXPECT_EQ(Rows({path}, {}).size(), 600'000);
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string(512, '\0');
  EXPECT_EQ(Rows({path}, {}).size(), 600'000);
  std::ofstream(path, std::ios::binary | std::ios::app) << "garbage";
  EXPECT_NE(error_of(path, 0).find("what follows the packed data"), std::string::npos)
      << error_of(path, 0);
}

TEST_F(RowsTest, LinesAreFoundWhereverAReadEnds) {
  std::string text;
  for (int i = 0; i < 700; ++i)
    text += "{\"v\": " + std::to_string(i) + ", \"t\": \"" + std::string(19'993, 'x') + "\"}\r\n\n";
  text += "{\"v\": 700}";
  const Rows rows({file(text)}, {});
  const std::vector<std::int64_t> found = values(rows);
  ASSERT_EQ(found.size(), 701U);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], static_cast<std::int64_t>(i));
  EXPECT_EQ(rows.where(700), (folder_ / "a.jsonl").string() + ":1401");
}

// Of mapped memory this would be the end of the process; as a bad row it might be left out.
TEST_F(RowsTest, AFileThatIsCutWhileItIsReadIsAMachineError) {
  const std::string path = file(numbered(100));
  const Rows rows({path}, {});
  fs::resize_file(path, 10);
  EXPECT_EQ(rows.row(0).find("v")->as_int(), 0);
  try {
    (void)rows.row(99);
    ADD_FAILURE();
  } catch (const MachineError& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find("has changed while it was read"), std::string::npos) << message;
  }
}

TEST_F(RowsTest, AFolderThatCannotBeListedIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may list every folder";
  file(numbered(1), "data/sub/a.jsonl");
  fs::permissions(folder_ / "data/sub", fs::perms::none);
  const std::string error = error_of(folder_.string(), 0);
  fs::permissions(folder_ / "data/sub", fs::perms::owner_all);
  EXPECT_NE(error.find("data/sub: listing the folder failed"), std::string::npos) << error;
}

TEST_F(RowsTest, AFolderIsItsFilesInOrderOfTheSplit) {
  file(numbered(1), "data/train-1.jsonl");
  file(numbered(2), "data/train-0.jsonl");
  file(numbered(3), "data/test.jsonl");
  EXPECT_EQ(values(Rows({folder_.string()}, {})), (std::vector<std::int64_t>{0, 1, 0}));
  EXPECT_EQ(Rows({folder_.string()}, {.split = "test[:2]", .shuffle_seed = {}, .limit = {}}).size(),
            2);
}

// A validation set never falls back to the training files.
TEST_F(RowsTest, AFolderWithoutFilesOfTheSplitIsAnError) {
  const auto size = [&](const std::string& split) {
    return Rows({folder_.string()}, {.split = split, .shuffle_seed = {}, .limit = {}}).size();
  };
  file(numbered(1), "chats.jsonl");
  file(numbered(2), "retrained.jsonl");
  EXPECT_EQ(size("train"), 3);
  file(numbered(4), "val/a.jsonl");
  EXPECT_EQ(size("train"), 3);
  EXPECT_EQ(size("validation"), 4);
  try {
    size("test");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("named after split test"), std::string::npos) << e.what();
  }
}

TEST_F(RowsTest, APackedFileThatUnpacksToMoreThanTheMemoryIsRefused) {
  const std::string path = (folder_ / "bomb.jsonl.gz").string();
  gzFile gz = gzopen(path.c_str(), "wb");
  const std::string blanks(1 << 20, ' ');
  for (int i = 0; i < 4; ++i) gzwrite(gz, blanks.data(), 1 << 20);
  gzclose(gz);
  EXPECT_EQ(FileBytes(path, 4 << 20).size(), std::size_t{4} << 20);
  try {
    FileBytes(path, (4 << 20) - 1);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("bomb.jsonl.gz: unpacks to more than"), std::string::npos)
        << e.what();
  }
}

TEST_F(RowsTest, NumberedFilesOfSeveralSplitsAreNotMixed) {
  for (const char* name :
       {"data/train_sft-00000-of-00002.jsonl", "data/train_sft-00001-of-00002.jsonl",
        "data/train_gen-00000-of-00001.jsonl", "data/test_sft-00000-of-00001.jsonl"})
    file("{\"v\": 1}\n", name);
  const std::string folder = folder_.string();
  try {
    (void)data_files({folder}, "train");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("split train may be any of train_gen, train_sft"),
              std::string::npos)
        << e.what();
  }
  EXPECT_EQ(data_files({folder}, "train_sft").size(), 2U);
  EXPECT_EQ(data_files({folder}, "test").size(), 1U);
  file("{\"v\": 1}\n", "data/train-00000-of-00001.jsonl");
  EXPECT_EQ(data_files({folder}, "train"),
            std::vector<std::string>{folder + "/data/train-00000-of-00001.jsonl"});
}

TEST_F(RowsTest, AnIntegerBeyond64BitsInAChatIsRefusedWithItsLine) {
  const std::string plain = "{\"id\": 14695981039346656037, \"messages\": [{\"n\": 1}]}";
  const std::string bad = "{\"messages\": [{\"id\": {\"n\": 18446744073709551615}}]}";
  const auto error = [](const Rows& rows, std::int64_t i) -> std::string {
    try {
      rows.check_integers(i);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const Rows lines({file(plain + "\n" + bad + "\n", "big.jsonl")}, {});
  EXPECT_EQ(error(lines, 0), "");
  EXPECT_NE(error(lines, 1).find("big.jsonl:2: the integer 18446744073709551615 is beyond"),
            std::string::npos)
      << error(lines, 1);
  const Rows array({file("[" + plain + ", " + bad + "]", "a.json")}, {});
  EXPECT_EQ(error(array, 0), "");
  EXPECT_NE(error(array, 1).find("a.json: row 2: the integer 18446744073709551615"),
            std::string::npos)
      << error(array, 1);
}

// What json.loads and str of Python make of them.
TEST_F(RowsTest, ColumnsThatAreIntegersBeyond64BitsAreTextAsItIsSpelled) {
  const std::string row =
      R"({"a": 1208925819614629174706176, "b\u0021": -18446744073709551615, "c": 1e30, "d": [1e30]})";
  for (const std::string& path : {file(row), file("[" + row + "]", "a.json")}) {
    const io::Value read = Rows({path}, {}).row(0);
    EXPECT_EQ(*read.find("a"), io::Value("1208925819614629174706176"));
    EXPECT_EQ(*read.find("b!"), io::Value("-18446744073709551615"));
    EXPECT_EQ(*read.find("c"), io::Value(1e30));
  }
}

TEST_F(RowsTest, ABadElementOfAnArrayIsNamedByItsPlaceInTheFileAndTheOthersAreRead) {
  const std::string path =
      file("[\n{\"v\": 1},\n  {\"v\": NaN}, {\"a\":\n\"]\\\"\", \"é\": x},\n 7 ,\n{\"v\": 2}]\n");
  const Rows rows({path}, {});
  ASSERT_EQ(rows.size(), 5);
  EXPECT_EQ(rows.row(0).find("v")->as_int(), 1);
  EXPECT_EQ(rows.row(4).find("v")->as_int(), 2);
  EXPECT_TRUE(error_of(path, 1).starts_with(path + ": row 2: line 3, column 9: NaN"))
      << error_of(path, 1);
  EXPECT_TRUE(error_of(path, 2).starts_with(path + ": row 3: line 4, column 13: expected a value"))
      << error_of(path, 2);
  EXPECT_EQ(error_of(path, 3), path + ": row 4: a row must be an object, found integer");
}

TEST_F(RowsTest, AnArrayThatIsNoneIsAnErrorWithItsPlace) {
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {"[{}\n{}]", "line 2, column 1: expected ',' or ']' in an array, found '{'"},
           {"[{},]", "line 1, column 5: expected a value, found ']'"},
           {"[,{}]", "line 1, column 2: expected a value, found ','"},
           {"[{}", "line 1, column 4: expected ',' or ']' in an array, found the end of the file"},
           {"[{}, ", "line 1, column 6: expected a value, found the end of the file"},
           {"[{}, 12", "line 1, column 8: expected the end of an element, found the end of"},
           {"[{},\n {\"v\": [1,", "row 2: line 2, column 11: expected a value, found the end of"},
           {"[{},\n {\"v\": 1, {}]", "row 2: line 2, column 11: expected a quoted key, found '{'"},
           {"[{}]\n[{}]", "line 2, column 1: expected nothing behind the array (a file is one "},
           {"[]", "no rows in the file"}}) {
    const std::string path = file(text, "a.json");
    EXPECT_TRUE(error_of(path, 0).starts_with(path + ": " + error)) << error_of(path, 0);
  }
}

// Behind a stray quote texts and brackets change places: the scan stumbles in a healthy row.
TEST_F(RowsTest, AStrayQuoteInAnArrayIsFoundInItsOwnRow) {
  for (const char* tail : {"{\"t\": \"a}b\"}]", "{\"t\": \"a}, {b\"},\n{\"t\": \"c}d\"}]"}) {
    const std::string path =
        file(std::string("[{\"t\": \"\"},\n{\"t\": \"x\"y\"},\n") + tail, "a.json");
    EXPECT_TRUE(error_of(path, 0).starts_with(path + ": row 2: line 2, column 10: "))
        << error_of(path, 0);
  }
}

TEST_F(RowsTest, ElementsAreFoundWhereverAReadEnds) {
  std::string text = "[";
  for (int i = 0; i < 700; ++i)
    text +=
        "{\"v\": " + std::to_string(i) + ", \"t\": \"" + std::string(19'993, '\\') + "\\]\"},\r\n ";
  text += "{\"v\": 700}]";
  const Rows rows({file(text, "a.json")}, {});
  ASSERT_EQ(rows.size(), 701);
  for (std::int64_t i = 0; i < 701; ++i) EXPECT_EQ(rows.row(i).find("v")->as_int(), i);
}

TEST_F(RowsTest, AnObjectOverSeveralLinesIsToldWhatAFileMayBe) {
  const std::string path = file("{\n  \"v\": 1\n}\n", "a.json");
  EXPECT_EQ(error_of(path, 0), path +
                                   ":1: column 2: expected a quoted key, found the end of the "
                                   "text; expected one row a line, or one JSON array of rows in "
                                   "the whole file");
}

TEST_F(RowsTest, TextInUtf16IsSaid) {
  for (const char* text : {"\xFF\xFE{", "\xFE\xFF"}) {
    const std::string path = file(text);
    EXPECT_EQ(error_of(path, 0), path + ": not UTF-8 (a UTF-16 byte order mark); save it as UTF-8");
  }
}

// The bytes of `zstd` for two rows.
TEST_F(RowsTest, ZstdFilesAreUnpacked) {
  const std::string path = file(std::string("\x28\xb5\x2f\xfd\x04\x68\x91\x00\x00", 9) +
                                    "{\"v\": 5}\n{\"v\": 6}\n\xe8\xa5\x0a\xf3",
                                "a.jsonl.zst");
  EXPECT_EQ(values(Rows({path}, {})), (std::vector<std::int64_t>{5, 6}));
}

TEST_F(RowsTest, MissingEmptyAndUnreadableSourcesAreNamed) {
  EXPECT_NE(error_of("/nowhere/x.jsonl", 0).find("/nowhere/x.jsonl: no such file"),
            std::string::npos);
  EXPECT_NE(error_of(file(""), 0).find("no rows"), std::string::npos);
  EXPECT_NE(error_of(file("\n\n"), 0).find("no rows"), std::string::npos);
  const std::string none = GLMTUNE_FIXTURES "/parquet/no_rows.parquet";
  EXPECT_EQ(error_of(none, 0), none + ": no rows in the file");
  EXPECT_NE(error_of(folder_.string() + "/sub", 0).find("no such"), std::string::npos);
  EXPECT_NE(error_of(file("x", "a.parquet"), 0).find("a.parquet"), std::string::npos);
}

TEST_F(RowsTest, ParquetRowsEqualTheJsonLinesTheyWereMadeFrom) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  const std::string chat = std::string(shared) + "/data/chat/";
  const Rows lines({chat + "oasst_en.messages.jsonl", chat + "self_instruct.messages.jsonl"}, {});
  for (const char* name :
       {"tulu3_schema.snappy.parquet-rs.parquet", "tulu3_schema.zstd.duckdb_v2.parquet"}) {
    const Rows table({chat + name}, {});
    ASSERT_EQ(table.size(), lines.size());
    for (std::int64_t i = 0; i < table.size(); i += 31) {
      // A struct's members come in the schema's order, so roles and contents are compared apart.
      const io::Value a = table.row(i);
      const io::Value b = lines.row(i);
      const auto& found = a.find("messages")->as_array();
      const auto& expected = b.find("messages")->as_array();
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t m = 0; m < found.size(); ++m) {
        EXPECT_EQ(*found[m].find("role"), *expected[m].find("role"));
        EXPECT_EQ(*found[m].find("content"), *expected[m].find("content"));
      }
    }
  }
}

TEST(SplitSlice, FollowsPythonSlicesAndPercentages) {
  const auto slice = [](const std::string& split, std::int64_t rows) {
    const RowRange r = slice_of_split(split, rows);
    return std::pair(r.begin, r.end);
  };
  using P = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(slice("train", 10), P(0, 10));
  EXPECT_EQ(slice("train[:3]", 10), P(0, 3));
  EXPECT_EQ(slice("train[3:]", 10), P(3, 10));
  EXPECT_EQ(slice("train[2:5]", 10), P(2, 5));
  EXPECT_EQ(slice("train[-4:]", 10), P(6, 10));
  EXPECT_EQ(slice("train[:-4]", 10), P(0, 6));
  EXPECT_EQ(slice("train[:100000]", 10), P(0, 10));
  EXPECT_EQ(slice("train[10%:20%]", 100), P(10, 20));
  EXPECT_EQ(slice("train[:1%]", 250), P(0, 2));  // 2.5 rounds to even
  EXPECT_EQ(slice("train[8:3]", 10), P(8, 8));
  for (const char* bad : {"train[", "train[3]", "train[a:]", "train[:200%]", "", "train+test"}) {
    EXPECT_THROW(slice_of_split(bad, 10), Error) << bad;
  }
}

// recipes.md section 8, row 26: for every source alike, the shuffle first, then the slice.
TEST_F(RowsTest, ShuffleComesBeforeTheSlice) {
  const std::string path = file(numbered(50));
  const auto all = values(Rows({path}, {.split = "train", .shuffle_seed = 42, .limit = {}}));
  const auto ten = values(Rows({path}, {.split = "train[:10]", .shuffle_seed = 42, .limit = {}}));
  EXPECT_EQ(ten, std::vector<std::int64_t>(all.begin(), all.begin() + 10));
  EXPECT_NE(ten, values(Rows({path}, {.split = "train[:10]", .shuffle_seed = {}, .limit = {}})));
  EXPECT_EQ(Rows({path}, {.split = "train[10:]", .shuffle_seed = {}, .limit = 5}).size(), 5);
}

// user_reports.md 71.
TEST_F(RowsTest, ALineBeyondTheLimitIsNamed) {
  const std::string path = file("{\"v\": 1}\n\n{\"v\": 22}\n");
  EXPECT_EQ(Rows({path}, {}, {.max_line_bytes = 9}).size(), 2);
  try {
    const Rows rows({path}, {}, {.max_line_bytes = 8});
    ADD_FAILURE() << rows.size();
  } catch (const Error& e) {
    EXPECT_EQ(e.what(), path + ":3: a line of 9 bytes; at most 8 are read");
  }
}

}  // namespace
}  // namespace glmtune::data
