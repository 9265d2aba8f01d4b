#include "io/crc32c.h"

#include <array>
#include <cstring>
#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

namespace glmtune::io {
namespace {

#ifdef __SSE4_2__

std::uint32_t update(std::uint32_t crc, const unsigned char* p, std::size_t bytes) {
  std::uint64_t wide = crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; --bytes, ++p) crc = _mm_crc32_u8(crc, *p);
  return crc;
}

#else

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t x = i;
    for (int bit = 0; bit < 8; ++bit) x = (x >> 1) ^ ((x & 1) != 0 ? 0x82f63b78U : 0U);
    table[i] = x;
  }
  return table;
}

std::uint32_t update(std::uint32_t crc, const unsigned char* p, std::size_t bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_table();
  for (; bytes > 0; --bytes, ++p) crc = (crc >> 8) ^ kTable[(crc ^ *p) & 0xff];
  return crc;
}

#endif

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before) {
  return ~update(~before, static_cast<const unsigned char*>(data), bytes);
}

}  // namespace glmtune::io
