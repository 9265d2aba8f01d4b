#pragma once
// How Python lays out one value: the language of format specifications, which str.format, the %
// operator and some filters share.
#include <cstdint>
#include <string>
#include <string_view>

#include "text/template_string.h"

namespace glmtune::text::jinja {

struct FormatSpec {
  std::string fill = " ";  // one character
  char align = '>';        // < > ^, or = (between the sign and the digits)
  char sign = 0;           // + - or space; 0: as -
  bool positive_zero = false;
  bool alternate = false;
  char grouping = 0;  // , or _ between the digits
  std::int64_t width = 0;
  std::int64_t precision = -1;
  std::int64_t digits = 0;  // of an integer, at least: the precision of the % operator
  char type = 0;
};

// What no width or precision may exceed: beyond any use, and bounded memory.
constexpr std::int64_t kMaxFormatWidth = 100'000;

// [[fill]align][sign][z][#][0][width][grouping][.precision][type] for a value of this type.
FormatSpec parse_format_spec(std::string_view spec, const Val& value);
std::string format_integer(std::int64_t i, const FormatSpec& spec);
std::string format_double(double d, const FormatSpec& spec);
void append_padded(Heap& heap, TextBuilder& out, const Val& text, const FormatSpec& spec);
// format(value, spec)
void append_formatted(Heap& heap, TextBuilder& out, const Val& value, std::string_view spec);
std::string ascii(std::string_view repr);  // with everything beyond ASCII as escapes

}  // namespace glmtune::text::jinja
