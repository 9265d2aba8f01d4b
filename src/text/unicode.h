#pragma once
// The character properties the tokenizer and the template engine need.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/utf8.h"

namespace glmtune::text {

using io::append_utf8;
using io::decode_utf8;
using io::Decoded;
using io::kInvalidCode;

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
// \w: letters, marks, decimal digits, letter numbers, connectors and joiners.
bool is_word_character(char32_t code);

// Python's str methods, for one code point or a text.
bool is_python_space(char32_t code);
bool is_printable(char32_t code);
bool is_cased(char32_t code);
bool is_lowercase(char32_t code);
bool is_titlecase(char32_t code);  // neither upper nor lower case
bool is_uppercase(char32_t code);
bool is_decimal(char32_t code);  // each of these three holds the one before it
bool is_digit(char32_t code);
bool is_numeric(char32_t code);
void append_lower(std::string& out, char32_t code);
void append_upper(std::string& out, char32_t code);
void append_title(std::string& out, char32_t code);
void append_folded(std::string& out, char32_t code);

}  // namespace glmtune::text
