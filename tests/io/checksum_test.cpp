#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "io/crc32c.h"
#include "io/files.h"
#include "io/sha1.h"
#include "support/temp_folder.h"

namespace glmtune::io {
namespace {

TEST(Crc32c, GivesTheKnownAnswers) {
  EXPECT_EQ(crc32c("", 0), 0U);
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283U);
  // RFC 3720, B.4.
  std::vector<unsigned char> bytes(32, 0);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x8a9136aaU);
  bytes.assign(32, 0xff);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x62a8ab43U);
  std::iota(bytes.begin(), bytes.end(), 0);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x46dd794eU);
}

// The examples of FIPS 180-4, lengths around a block's end, and what `git hash-object` says.
TEST(Sha1, GivesTheKnownAnswers) {
  EXPECT_EQ(sha1_hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1_hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sha1_hex(std::string(55, 'a')), "c1c8bbdc22796e28c0e15163d20899b65621d65a");
  EXPECT_EQ(sha1_hex(std::string(56, 'a')), "c2db330f6083854c99d4b5bfb6e8f29f201be699");
  EXPECT_EQ(sha1_hex(std::string(63, 'a')), "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
  EXPECT_EQ(sha1_hex(std::string(64, 'a')), "0098ba824b5c16427bd7a1122a5a442a25ec644d");
  EXPECT_EQ(sha1_hex(std::string(1000, 'a')), "291e9a6c66994949b57ba5e650361e98fc36b1ba");
  EXPECT_EQ(git_blob_name("abc"), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  EXPECT_EQ(git_blob_name(""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

TEST(Crc32c, GoesOnWhereItStopped) {
  std::vector<unsigned char> bytes(100);
  std::iota(bytes.begin(), bytes.end(), 7);
  const std::uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut)
    EXPECT_EQ(crc32c(bytes.data() + cut, bytes.size() - cut, crc32c(bytes.data(), cut)), whole);
}

TEST(Files, KnowTheChecksumOfWhatTheyWroteAndOfWhatIsThere) {
  const TempFolder temp;
  const std::string text(5'000'000, 'x');
  AtomicFile file(temp / "f");
  file.append("begin");
  file.append(text);
  file.commit();
  EXPECT_EQ(file_checksum(temp / "f"), file.checksum());
  EXPECT_EQ(file.checksum(), crc32c(text.data(), text.size(), crc32c("begin", 5)));
  write_file(temp / "empty", "");
  EXPECT_EQ(file_checksum(temp / "empty"), 0U);
}

}  // namespace
}  // namespace glmtune::io
