#pragma once
// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
#include <cstddef>
#include <string>
#include <string_view>

namespace glmtune::io {

inline constexpr char32_t kInvalidCode = 0xFFFFFFFF;

struct Decoded {
  char32_t code;       // kInvalidCode where the bytes are not valid UTF-8
  std::size_t length;  // bytes it takes, at least 1
};

// The code point at s[i] with a first byte from 0x80; i < s.size(). An invalid byte stands alone.
inline Decoded decode_utf8_beyond_ascii(std::string_view s, std::size_t i) {
  const auto byte = [&](std::size_t k) -> char32_t {
    return i + k < s.size() ? static_cast<unsigned char>(s[i + k]) : 0U;
  };
  const auto continues = [](char32_t b) { return (b & 0xC0U) == 0x80U; };
  constexpr Decoded kInvalid{kInvalidCode, 1};
  const char32_t b0 = byte(0);
  const char32_t b1 = byte(1);
  if (!continues(b1)) return kInvalid;
  if (b0 >= 0xC2 && b0 < 0xE0) return {(b0 & 0x1FU) << 6U | (b1 & 0x3FU), 2};
  const char32_t b2 = byte(2);
  if (!continues(b2)) return kInvalid;
  if (b0 >= 0xE0 && b0 < 0xF0) {
    const char32_t code = (b0 & 0x0FU) << 12U | (b1 & 0x3FU) << 6U | (b2 & 0x3FU);
    return code < 0x800 || (code >= 0xD800 && code < 0xE000) ? kInvalid : Decoded{code, 3};
  }
  const char32_t b3 = byte(3);
  if (b0 < 0xF0 || b0 > 0xF4 || !continues(b3)) return kInvalid;
  const char32_t code =
      (b0 & 0x07U) << 18U | (b1 & 0x3FU) << 12U | (b2 & 0x3FU) << 6U | (b3 & 0x3FU);
  return code < 0x10000 || code > 0x10FFFF ? kInvalid : Decoded{code, 4};
}

// The code point at s[i]; i < s.size().
inline Decoded decode_utf8(std::string_view s, std::size_t i) {
  const auto byte = static_cast<unsigned char>(s[i]);
  if (byte < 0x80) return {byte, 1};
  return decode_utf8_beyond_ascii(s, i);
}

void append_utf8(std::string& out, char32_t code);

// The position of the first byte that is no part of a valid sequence, s.size() when all is valid.
std::size_t first_invalid_utf8(std::string_view s);
inline bool is_utf8(std::string_view s) {
  return first_invalid_utf8(s) == s.size();
}

// Each maximal invalid part replaced by U+FFFD, as Rust's from_utf8_lossy and Python do.
std::string replace_invalid_utf8(std::string_view s);

}  // namespace glmtune::io
