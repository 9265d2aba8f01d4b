#include "data/hash.h"

#include <filesystem>

#include "io/files.h"

namespace glmtune::data {

void ContentHash::add(std::string_view text) {
  add_bytes(std::as_bytes(std::span(text.data(), text.size())));
}

void ContentHash::add_bytes(std::span<const std::byte> bytes) {
  mix(bytes.size());
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    mix(word);
  }
  std::uint64_t tail = 0;
  if (at < bytes.size()) std::memcpy(&tail, bytes.data() + at, bytes.size() - at);
  mix(tail);
}

void ContentHash::add_file(const std::string& path) {
  add(std::filesystem::exists(path) ? io::read_file(path) : "");
}

std::string ContentHash::hex() const {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::uint64_t lane : lanes_) {
    for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(lane >> shift) & 15];
  }
  return out;
}

}  // namespace glmtune::data
