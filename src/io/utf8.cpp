#include "io/utf8.h"

#include <cstdint>
#include <cstring>

namespace glmtune::io {

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | code >> 6U);
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | code >> 12U);
    put(0x80U | (code >> 6U & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | code >> 18U);
    put(0x80U | (code >> 12U & 0x3FU));
    put(0x80U | (code >> 6U & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

std::size_t first_invalid_utf8(std::string_view s) {
  for (std::size_t i = 0; i < s.size();) {
    // Eight bytes of ASCII at a time: most of most texts.
    if (i + 8 <= s.size()) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, s.data() + i, 8);
      if ((eight & 0x8080808080808080U) == 0) {
        i += 8;
        continue;
      }
    }
    const Decoded d = decode_utf8(s, i);
    if (d.code == kInvalidCode) return i;
    i += d.length;
  }
  return s.size();
}

std::string replace_invalid_utf8(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  while (true) {
    const std::size_t valid = first_invalid_utf8(s);
    out.append(s.substr(0, valid));
    if (valid == s.size()) return out;
    s.remove_prefix(valid);
    out += "\xEF\xBF\xBD";
    // The bytes that could still have become a code point count as one invalid part: every prefix
    // of a valid sequence, found by completing it with the least and greatest continuation bytes.
    std::size_t part = 1;
    const auto b0 = static_cast<unsigned char>(s[0]);
    const std::size_t length = b0 >= 0xF0 ? 4 : b0 >= 0xE0 ? 3 : b0 >= 0xC0 ? 2 : 1;
    while (part < length && part < s.size()) {
      std::string low(s.substr(0, part + 1));
      std::string high = low;
      low.resize(length, '\x80');
      high.resize(length, '\xBF');
      if (decode_utf8(low, 0).code == kInvalidCode && decode_utf8(high, 0).code == kInvalidCode) {
        break;
      }
      ++part;
    }
    s.remove_prefix(part);
  }
}

}  // namespace glmtune::io
