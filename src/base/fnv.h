#pragma once
// A short hash of names (FNV-1a, 64 bits) and of data. Not cryptographic.
#include <cstdint>
#include <string_view>

namespace glmtune {

class Fnv1a {
 public:
  void add(std::string_view text) {
    for (const char c : text) step(static_cast<unsigned char>(c));
  }
  // Eight bytes in one step. A product carries upwards only, so that its high half goes back down:
  // without that the word's upper bytes would reach no more than the upper bytes of the value.
  void add(std::uint64_t word) {
    step(word);
    value_ ^= value_ >> 32U;
  }
  std::uint64_t value() const { return value_; }

 private:
  void step(std::uint64_t x) { value_ = (value_ ^ x) * 0x100000001B3; }

  std::uint64_t value_ = 0xCBF29CE484222325;
};

}  // namespace glmtune
