#include "io/parquet.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "base/cat.h"
#include "base/error.h"
#include "io/codec.h"
#include "io/parquet_encoding.h"
#include "support/processes.h"
#include "support/temp_folder.h"

namespace glmtune::io {
namespace {

const std::string kFixtures = std::string(GLMTUNE_FIXTURES) + "/parquet/";

std::vector<Value> json_lines(const std::string& text) {
  std::vector<Value> rows;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) rows.push_back(parse_json(line, "expected"));
  return rows;
}

std::vector<Value> all_rows(const std::string& path) {
  const ParquetFile file = ParquetFile::open(path);
  std::vector<Value> rows;
  for (std::size_t g = 0; g < file.groups(); ++g) {
    for (Value& v : file.read_group(g)) rows.push_back(std::move(v));
  }
  EXPECT_EQ(static_cast<std::int64_t>(rows.size()), file.rows());
  return rows;
}

void expect_same(const std::string& path, const std::string& expected) {
  const std::vector<Value> want = json_lines(read_file(expected));
  const std::vector<Value> got = all_rows(path);
  ASSERT_EQ(got.size(), want.size()) << path;
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i], want[i]) << path << " row " << i << ": " << to_json(got[i]);
  }
}

std::string message_of(const std::string& path) {
  try {
    (void)all_rows(path);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

// Written by pyarrow 26 from the rows of the .jsonl file beside them.
TEST(Parquet, NestedRowsInEveryEncodingAndPageVersion) {
  for (const char* name : {"nested.v1.snappy.parquet", "nested.v2.zstd.parquet",
                           "nested.v1.gzip.plain.parquet", "nested.v2.none.delta.parquet"}) {
    expect_same(kFixtures + name, kFixtures + "nested.jsonl");
  }
}

TEST(Parquet, ScalarsOfEveryWidth) {
  for (const char* name : {"scalars.v1.parquet", "scalars.v2.delta.parquet"}) {
    expect_same(kFixtures + name, kFixtures + "scalars.jsonl");
  }
}

TEST(Parquet, ColumnsAndLines) {
  const ParquetFile file = ParquetFile::open(kFixtures + "nested.v1.snappy.parquet");
  EXPECT_EQ(file.columns(),
            (std::vector<std::string>{"id", "messages", "n", "x", "ok", "tags", "m"}));
  EXPECT_EQ(file.groups(), 3U);
  EXPECT_EQ(file.rows_of_group(2), 6);
  EXPECT_EQ(json_lines(parquet_to_json_lines(file, std::uint64_t{1} << 30U)),
            json_lines(read_file(kFixtures + "nested.jsonl")));
}

TEST(Parquet, OnlyTheColumnsAskedForAreRead) {
  const std::string path = kFixtures + "chat.beside_unreadable.parquet";
  const ParquetFile file = ParquetFile::open(path, {"nope", "messages", "emb"});
  EXPECT_EQ(file.columns(), (std::vector<std::string>{"messages", "emb"}));
  EXPECT_EQ(file.unread_columns(), (std::vector<std::string>{"raw", "price", "at", "packed"}));
  EXPECT_EQ(to_json(file.read_group(0).at(1)),
            R"({"messages": [{"role": "user", "content": "hi"}, )"
            R"({"role": "assistant", "content": "yes"}], "emb": [1.0, 2.0]})");
  EXPECT_EQ(ParquetFile::open(path, {"nope"}).read_group(0).size(), 2U);
}

TEST(Parquet, WhatIsNotReadIsNamed) {
  const auto says = [](const std::string& path, const std::string& part) {
    const std::string m = message_of(path);
    EXPECT_EQ(m.rfind(path, 0), 0U) << m;
    EXPECT_NE(m.find(part), std::string::npos) << m;
  };
  says(kFixtures + "binary.parquet", "column raw: a string is not UTF-8");
  says(kFixtures + "decimal.parquet", "column price: ");
  says(kFixtures + "brotli.parquet", "compression Brotli is not supported");
  const TempFolder folder;
  write_file(folder / "a", "PAR1");
  says(folder / "a", "truncated");
  write_file(folder / "a", "PAR1xxxxxxxxxxxxxxxx");
  says(folder / "a", "must end in PAR1");
  std::string bytes = read_file(kFixtures + "nested.v1.snappy.parquet");
  bytes[24] = static_cast<char>(bytes[24] ^ 1);
  write_file(folder / "a", bytes);
  says(folder / "a", "checksum");
}

// JSON Lines would hold them, but Value does not.
TEST(Parquet, UnsignedIntegersThatDoNotFitAreNamedByRowAndColumn) {
  for (const char* name : {"u64.parquet", "u64.dictionary.parquet"}) {
    const std::string path = kFixtures + name;
    const ParquetFile file = ParquetFile::open(path);
    EXPECT_EQ(to_json(file.read_group(0)[2]), R"({"s": "r2", "m": [{"n": 9223372036854775807}]})");
    const std::string said = message_of(path);
    EXPECT_TRUE(
        said.starts_with(path +
                         ": row group 1, row 7, column m.list.element.n: the unsigned integer "
                         "9223372036854775813 is beyond 2^63 - 1"))
        << said;
  }
}

#ifdef __SANITIZE_ADDRESS__
constexpr bool kMeasuresMemory = false;
#else
constexpr bool kMeasuresMemory = true;
#endif

// Files of at most 7 kB that stand for 200 MB (one string; strings that repeat the one before), 20
// GB (one list) and 200 GB (rows).
TEST(Parquet, WhatDoesNotFitIntoMemoryIsSaidBeforeItIsUnpacked) {
  constexpr std::uint64_t kMost = std::uint64_t{32} << 20U;
  for (const auto& [name, part] : std::vector<std::pair<std::string, std::string>>{
           {"page", "row group 0, column text: a page of 381.5 MiB does not fit into the 32.0 MiB"},
           {"delta", "row group 0, column text: its strings, unpacked, do not fit"},
           {"list", "column texts.list.element: a page of 1.49 GiB does not fit"},
           {"dictionary", "row group 0, row 30 takes more than the "}}) {
    const std::string path = kFixtures + "bomb." + name + ".parquet";
    test::Processes processes;
    processes.start([&] {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      const long before = usage.ru_maxrss;
      std::string said = "accepted";
      try {
        (void)parquet_to_json_lines(ParquetFile::open(path), kMost);
      } catch (const Error& e) {
        said = e.what();
      }
      getrusage(RUSAGE_SELF, &usage);
      if (kMeasuresMemory && usage.ru_maxrss - before > (128 << 10))
        said += cat(" and takes ", usage.ru_maxrss - before, " kB");
      return said;
    });
    const std::string said = processes.wait()[0].said;
    EXPECT_TRUE(said.starts_with(path + ": ")) << said;
    EXPECT_NE(said.find(part), std::string::npos) << said;
    EXPECT_EQ(said.find(" and takes "), std::string::npos) << said;
  }
}

// Arrow writes such groups without pages.
TEST(Parquet, RowGroupsWithoutRowsAreNone) {
  EXPECT_EQ(parquet_to_json_lines(ParquetFile::open(kFixtures + "no_rows.parquet"), 1000), "");
  EXPECT_EQ(parquet_to_json_lines(ParquetFile::open(kFixtures + "empty_groups.parquet"), 1000),
            "{\"v\": 1, \"m\": [{\"n\": \"a\"}]}\n{\"v\": 2, \"m\": []}\n");
}

// Any damage ends in an Error or in other rows, never in a crash or a runaway allocation.
TEST(Parquet, DamagedFilesEndInErrors) {
  const TempFolder folder;
  std::mt19937 random(7);
  int refused = 0;
  int total = 0;
  for (const char* name : {"nested.v2.zstd.parquet", "nested.v2.none.delta.parquet",
                           "nested.v1.gzip.plain.parquet", "scalars.v1.parquet"}) {
    const std::string good = read_file(kFixtures + name);
    for (int i = 0; i < 40; ++i, ++total) {
      std::string bad = good;
      const int changes = 1 + static_cast<int>(random() % 3);
      for (int k = 0; k < changes; ++k) {
        bad[random() % (bad.size() - 8)] = static_cast<char>(random());
      }
      std::ofstream(folder / "bad", std::ios::binary) << bad;
      refused += message_of(folder / "bad") != "accepted" ? 1 : 0;
    }
  }
  EXPECT_GT(refused, total / 4);
}

TEST(Parquet, HybridRunsAndGroups) {
  // A run of 5 times 3, then one group of eight 2-bit values 0..3, 0..3.
  const std::string bytes("\x0a\x03\x03\xe4\xe4", 5);
  ByteReader in(bytes);
  EXPECT_EQ(parquet::read_hybrid(in, 2, 13),
            (std::vector<std::uint32_t>{3, 3, 3, 3, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  ByteReader again(bytes);
  EXPECT_THROW((void)parquet::read_hybrid(again, 2, 14), Error);
}

// tulu-3's schema by two independent writers, against the JSON Lines they were made from.
TEST(Parquet, RealChatRows) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  const std::string chat = std::string(shared) + "/data/chat/";
  const auto rust = all_rows(chat + "tulu3_schema.snappy.parquet-rs.parquet");
  EXPECT_EQ(rust.size(), 682U);
  EXPECT_EQ(rust, all_rows(chat + "tulu3_schema.zstd.v2pages.parquet-rs.parquet"));
  EXPECT_EQ(rust, all_rows(chat + "tulu3_schema.zstd.duckdb_v2.parquet"));
  const auto small = all_rows(chat + "tulu3_schema.60rows.uncompressed.parquet");
  ASSERT_EQ(small.size(), 60U);
  EXPECT_TRUE(std::equal(small.begin(), small.end(), rust.begin()));
}

TEST(Codec, ZstdFilesOfSeveralFrames) {
  const std::string bytes = read_file(kFixtures + "two_frames.zst");
  EXPECT_TRUE(is_zstd(bytes));
  EXPECT_EQ(unzstd(bytes, "f", 12), "hello\nworld\n");
  EXPECT_THROW((void)unzstd(bytes, "f", 11), Error);
  EXPECT_THROW((void)unzstd(bytes.substr(0, bytes.size() - 2), "f", 12), Error);
  // A frame of one block of 131,072 times 'a', as large as the decoder's own output block.
  using namespace std::string_view_literals;
  const std::string frame(
      "\x28\xB5\x2F\xFD\x00\x38\x03\x00\x10"
      "a"sv);
  const std::string block(131072, 'a');
  EXPECT_EQ(unzstd(frame, "f", 1 << 20), block);
  EXPECT_EQ(unzstd(frame + frame, "f", 1 << 20), block + block);
  std::string more = frame;
  more[6] = '\x02';  // not the last block
  EXPECT_THROW((void)unzstd(more, "f", 1 << 20), Error);
  EXPECT_THROW((void)unzstd_block("garbage", 10), Error);
  EXPECT_THROW((void)unsnappy_block("garbage", 10), Error);
  EXPECT_THROW((void)gunzip_block("garbage", 10), Error);
}

}  // namespace
}  // namespace glmtune::io
