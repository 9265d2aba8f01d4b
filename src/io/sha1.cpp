#include "io/sha1.h"

#include <array>
#include <bit>
#include <cstdint>

#include "base/cat.h"

namespace glmtune::io {
namespace {

using State = std::array<std::uint32_t, 5>;

void add_block(State& state, const char* bytes) {
  std::array<std::uint32_t, 80> w{};
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t k = 0; k < 4; ++k)
      w[i] = w[i] << 8U | static_cast<unsigned char>(bytes[4 * i + k]);
  for (std::size_t i = 16; i < 80; ++i)
    w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state;
  for (std::size_t i = 0; i < 80; ++i) {
    std::uint32_t f = b ^ c ^ d;
    if (i < 20) f = (b & c) | (~b & d);
    if (i >= 40 && i < 60) f = (b & c) | (b & d) | (c & d);
    constexpr std::array<std::uint32_t, 4> kRound{0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6};
    const std::uint32_t next = std::rotl(a, 5) + f + e + kRound[i / 20] + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

}  // namespace

std::string sha1_hex(std::string_view bytes) {
  State state{0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  std::size_t at = 0;
  for (; at + 64 <= bytes.size(); at += 64) add_block(state, bytes.data() + at);
  std::string tail(bytes.substr(at));
  tail += '\x80';
  tail.resize(tail.size() <= 56 ? 56 : 120);
  const std::uint64_t bits = 8 * static_cast<std::uint64_t>(bytes.size());
  for (unsigned shift = 64; shift > 0; shift -= 8)
    tail += static_cast<char>(bits >> (shift - 8) & 0xFFU);
  for (std::size_t block = 0; block < tail.size(); block += 64)
    add_block(state, tail.data() + block);
  std::string hex;
  for (const std::uint32_t word : state)
    for (unsigned shift = 32; shift > 0; shift -= 4)
      hex += "0123456789abcdef"[word >> (shift - 4) & 0xFU];
  return hex;
}

std::string git_blob_name(std::string_view contents) {
  return sha1_hex(cat("blob ", contents.size(), std::string(1, '\0'), contents));
}

}  // namespace glmtune::io
