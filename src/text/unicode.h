#pragma once
// UTF-8 and the character properties the tokenizer and the template engine need.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace glmtune::text {

inline constexpr char32_t kInvalidCode = 0xFFFFFFFF;

struct Decoded {
  char32_t code;       // kInvalidCode where the bytes are not valid UTF-8
  std::size_t length;  // bytes it takes, at least 1
};
// The code point at text[pos]; pos < text.size(). An invalid byte is decoded alone.
Decoded decode_utf8_slow(std::string_view text, std::size_t pos);
inline Decoded decode_utf8(std::string_view text, std::size_t pos) {
  const auto byte = static_cast<unsigned char>(text[pos]);
  if (byte < 0x80) return {byte, 1};
  return decode_utf8_slow(text, pos);
}
void append_utf8(std::string& out, char32_t code);
// Each maximal invalid part replaced by U+FFFD, as Rust's from_utf8_lossy and Python do.
std::string replace_invalid_utf8(std::string_view bytes);
std::size_t count_code_points(std::string_view text);

// A byte for every code point; pages of 256 equal bytes share one.
class CodeTable {
 public:
  CodeTable();
  void set(char32_t first, char32_t last, std::uint8_t value);
  std::uint8_t operator[](char32_t code) const {
    return code < 0x110000 ? pages_[page_of_[code >> 8U]][code & 0xFFU] : 0;
  }

 private:
  std::array<std::uint16_t, 0x1100> page_of_{};
  std::vector<std::array<std::uint8_t, 256>> pages_;
  std::vector<bool> shared_;  // per page: several may point to it
};

// What \p{L}, \p{N} and \s of a split regex see; the rest is kOther.
enum CharClass : std::uint8_t { kOther, kLetter, kNumber, kSpace };
const CodeTable& char_classes();

// Python's str methods, for one code point or a text.
bool is_python_space(char32_t code);
bool is_printable(char32_t code);
bool is_cased(char32_t code);
void append_lower(std::string& out, char32_t code);
void append_upper(std::string& out, char32_t code);
void append_title(std::string& out, char32_t code);

}  // namespace glmtune::text
