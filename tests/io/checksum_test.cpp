#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "io/crc32c.h"
#include "io/files.h"
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
