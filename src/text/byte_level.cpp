#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "io/utf8.h"

namespace glmtune::text {
namespace {

constexpr std::size_t kCharacters = 324;

constexpr std::array<std::int16_t, kCharacters> make_table() {
  std::array<std::int16_t, kCharacters> t{};
  for (std::int16_t& b : t) b = -1;
  std::size_t next = 256;
  for (std::size_t b = 0; b < 256; ++b) {
    const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    t[itself ? b : next++] = static_cast<std::int16_t>(b);
  }
  return t;
}

// Byte of each character below U+0144, -1 where it is not of the alphabet.
constexpr std::array<std::int16_t, kCharacters> kByteOf = make_table();

}  // namespace

bool append_byte_level(std::string_view text, std::string& out) {
  for (std::size_t i = 0; i < text.size();) {
    const io::Decoded d = io::decode_utf8(text, i);
    if (d.code >= kByteOf.size() || kByteOf[d.code] < 0) return false;
    out.push_back(static_cast<char>(kByteOf[d.code]));
    i += d.length;
  }
  return true;
}

}  // namespace glmtune::text
