#pragma once
// A 128-bit content hash for fingerprints and cache keys. Not cryptographic: it tells data that
// changed from data that did not, not an attacker.
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace glmtune::data {

class ContentHash {
 public:
  // Texts are hashed with their lengths, so that neighbours cannot run into each other.
  void add(std::string_view text);
  void add(std::int64_t value) { mix(static_cast<std::uint64_t>(value)); }
  void add_bytes(std::span<const std::byte> bytes);
  void add_file(const std::string& path);  // its bytes; nothing when there is no such file
  std::string hex() const;                 // 32 digits

 private:
  void mix(std::uint64_t word) {
    lanes_[0] = (lanes_[0] ^ word) * 0x9e3779b97f4a7c15ULL;
    lanes_[0] ^= lanes_[0] >> 29;
    lanes_[1] = (lanes_[1] + word) * 0xd1342543de82ef95ULL;
    lanes_[1] ^= lanes_[1] >> 32;
  }
  std::array<std::uint64_t, 2> lanes_{0x243f6a8885a308d3ULL, 0x13198a2e03707344ULL};
};

}  // namespace glmtune::data
