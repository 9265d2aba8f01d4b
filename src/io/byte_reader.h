#pragma once
// ByteReader: a position in bytes that never moves past their end.
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace glmtune::io {

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t position() const { return at_; }

  std::string_view take(std::uint64_t n) {
    if (n > left()) fail("the data ends early");
    const std::string_view out = bytes_.substr(at_, static_cast<std::size_t>(n));
    at_ += static_cast<std::size_t>(n);
    return out;
  }
  std::string_view rest() { return take(left()); }

  std::uint8_t u8() { return static_cast<std::uint8_t>(take(1).front()); }

  // Little-endian, as every machine this runs on.
  template <class T>
  T value() {
    T x;
    std::memcpy(&x, take(sizeof(T)).data(), sizeof(T));
    return x;
  }

  std::uint64_t varint() {
    std::uint64_t x = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t b = u8();
      x |= static_cast<std::uint64_t>(b & 0x7FU) << shift;
      if ((b & 0x80U) == 0) return x;
    }
    fail("a variable-length integer has more than ten bytes");
  }
  std::int64_t zigzag() {
    const std::uint64_t x = varint();
    return static_cast<std::int64_t>(x >> 1U) ^ -static_cast<std::int64_t>(x & 1U);
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace glmtune::io
