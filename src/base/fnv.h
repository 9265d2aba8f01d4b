#pragma once
// FNV-1a, 64 bits: a short hash of names and words. Not cryptographic.
#include <cstdint>
#include <string_view>

namespace glmtune {

class Fnv1a {
 public:
  void add(std::uint64_t word) { value_ = (value_ ^ word) * 0x100000001B3; }
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325;
};

}  // namespace glmtune
