#pragma once
// SHA-256 (FIPS 180-4) of a stream of bytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace glmtune::io {

class Sha256 {
 public:
  void add(const void* data, std::size_t bytes);
  void add(std::string_view text) { add(text.data(), text.size()); }
  // 64 hexadecimal digits of all bytes added; nothing can be added afterwards.
  std::string hex();

 private:
  void block(const unsigned char* bytes);

  std::array<std::uint32_t, 8> state_ = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                         0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
  std::array<unsigned char, 64> open_{};  // the block that is not full
  std::uint64_t bytes_ = 0;
};

std::string sha256_hex(std::string_view text);

}  // namespace glmtune::io
