#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/cat.h"
#include "text/template_format.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

bool is_one_of(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}

[[noreturn]] void not_allowed(std::string_view what, char type) {
  raise("ValueError", cat(what, " not allowed with the format code '", type, "'"));
}

// Digits in groups from the right, with zeros before them up to a width; no group is empty.
std::string grouped(std::string_view digits, const FormatSpec& spec, std::int64_t min_width) {
  const std::size_t size = is_one_of(spec.type, "bBoxX") ? 4 : 3;
  std::string reversed;
  std::size_t in_group = 0;
  for (std::size_t left = digits.size();
       left > 0 || static_cast<std::int64_t>(reversed.size()) < min_width;) {
    if (spec.grouping != 0 && in_group == size) {
      reversed += spec.grouping;
      in_group = 0;
    }
    reversed += left > 0 ? digits[--left] : '0';
    ++in_group;
  }
  return {reversed.rbegin(), reversed.rend()};
}

// A number of sign and prefix, digits before the point, and what follows them.
std::string lay_out(std::string head, std::string_view digits, std::string_view rest,
                    const FormatSpec& spec) {
  const auto fixed = static_cast<std::int64_t>(head.size() + rest.size());
  const bool zeros = spec.fill == "0" && spec.align == '=';
  std::string body;
  if (!digits.empty()) body = grouped(digits, spec, zeros ? spec.width - fixed : 0);
  body += rest;
  const auto pad = spec.width - static_cast<std::int64_t>(head.size() + count_code_points(body));
  const auto fill = [&](std::int64_t n) {
    std::string out;
    for (; n > 0; --n) out += spec.fill;
    return out;
  };
  switch (spec.align) {
    case '<':
      return head + body + fill(pad);
    case '^':
      return fill(pad / 2) + head + body + fill(pad - pad / 2);
    case '=':
      return head + fill(pad) + body;
    default:
      return fill(pad) + head + body;
  }
}

std::string sign_of(bool negative, const FormatSpec& spec) {
  if (negative) return std::string(1, '-');
  return std::string(spec.sign == '+' || spec.sign == ' ' ? 1 : 0, spec.sign);
}

std::string in_base(std::uint64_t v, unsigned base, bool upper) {
  const char* digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), digits[v % base]);
    v /= base;
  } while (v != 0);
  return out;
}

std::string printed(const char* format, std::int64_t precision, double d) {
  std::string out(static_cast<std::size_t>(precision) + 400, '\0');
  out.resize(static_cast<std::size_t>(
      std::snprintf(out.data(), out.size(), format, static_cast<int>(precision), d)));
  return out;
}

// Like %g, but with at least one digit after a point.
std::string general_with_point(double d, std::int64_t precision) {
  precision = std::max<std::int64_t>(precision, 1);
  const std::string scientific = printed("%.*e", precision - 1, d);
  const std::size_t e = scientific.find('e');
  const int exponent = std::atoi(scientific.c_str() + e + 1);
  std::string digits = scientific.substr(0, e);
  if (digits.size() > 1) digits.erase(1, 1);
  digits.erase(std::max<std::size_t>(digits.find_last_not_of('0') + 1, 1));
  if (exponent < -4 || exponent >= precision - 1) {
    if (digits.size() > 1) digits.insert(1, 1, '.');
    return digits + scientific.substr(e);
  }
  if (exponent < 0)
    return std::string("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return digits.append(whole - digits.size(), '0').append(".0");
  return digits.insert(whole, 1, '.');
}

std::string magnitude(double d, const FormatSpec& spec) {
  const bool percent = spec.type == '%';
  const char type = percent ? 'f' : spec.type == 'n' ? 'g' : spec.type;
  std::string out;
  if (!std::isfinite(d)) {
    out = std::isnan(d) ? "nan" : "inf";
    if (is_one_of(type, "EFG")) out = std::isnan(d) ? "NAN" : "INF";
  } else if (type == 0) {
    out = spec.precision < 0 ? io::to_json(io::Value(d)) : general_with_point(d, spec.precision);
  } else {
    const std::string format = std::string(spec.alternate ? "%#.*" : "%.*") + type;
    out = printed(format.c_str(), spec.precision < 0 ? 6 : spec.precision, percent ? d * 100 : d);
    if (out[0] == 'i') out = "inf";  // the percentage is too large
  }
  if (percent) out += '%';
  return out;
}

std::size_t character_size(std::string_view text) {
  return text.empty() ? 0 : decode_utf8(text, 0).length;
}

std::string format_number(const Val& value, const FormatSpec& spec) {
  const char type = spec.type;
  if (!value.is(Kind::kFloat)) {
    const std::int64_t i = as_int(value, "format");
    if (!is_one_of(type, "eEfFgG%")) return format_integer(i, spec);
    return format_double(static_cast<double>(i), spec);
  }
  if (type != 0 && !is_one_of(type, "eEfFgGn%")) {
    raise("ValueError", cat("Unknown format code '", type, "' for object of type 'float'"));
  }
  if (type == 'n' && spec.grouping != 0) not_allowed("grouping", 'n');
  return format_double(value.number, spec);
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text, const Val& value) {
  FormatSpec spec;
  const bool is_text = value.is(Kind::kString);
  const std::string_view all = text;
  spec.align = is_text ? '<' : '>';
  const auto skip = [&](std::string_view set) {
    if (text.empty() || !is_one_of(text[0], set)) return '\0';
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  const auto number = [&](std::int64_t& n) {
    const std::size_t before = text.size();
    for (n = 0; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1)) {
      n = n * 10 + (text[0] - '0');
      if (n > kMaxFormatWidth) {
        raise("ValueError", cat("a format of more than ", kMaxFormatWidth, " characters"));
      }
    }
    return text.size() != before;
  };
  const std::size_t first = character_size(text);
  const bool filled = text.size() > first && is_one_of(text[first], "<>=^");
  if (filled) {
    spec.fill = text.substr(0, first);
    text.remove_prefix(first);
  }
  const char align = skip("<>=^");
  if (align != 0) spec.align = align;
  spec.sign = skip("+- ");
  spec.positive_zero = skip("z") != 0;
  spec.alternate = skip("#") != 0;
  if (!filled && skip("0") != 0) {
    spec.fill.assign(1, '0');
    if (align == 0 && !is_text) spec.align = '=';
  }
  number(spec.width);
  spec.grouping = skip(",_");
  if (spec.grouping != 0 && skip(",_") != 0) raise("ValueError", "Cannot specify both ',' and '_'");
  if (skip(".") != 0 && !number(spec.precision)) {
    raise("ValueError", "Format specifier missing precision");
  }
  if (text.size() > 1) {
    raise("ValueError",
          cat("Invalid format specifier '", all, "' for object of type '", type_name(value), "'"));
  }
  if (!text.empty()) spec.type = text[0];
  if (spec.grouping != 0 && !(spec.type == 0 || is_one_of(spec.type, "defgEG%F") ||
                              (spec.grouping == '_' && is_one_of(spec.type, "boxX")))) {
    raise("ValueError", cat("Cannot specify '", spec.grouping, "' with '", spec.type, "'"));
  }
  if (!is_text) return spec;
  if (spec.type != 0 && spec.type != 's') {
    raise("ValueError", cat("Unknown format code '", spec.type, "' for object of type 'str'"));
  }
  if (spec.sign != 0 || spec.positive_zero || spec.alternate || spec.grouping != 0 ||
      spec.align == '=') {
    raise("ValueError", "a sign, 'z', '#', ',' or '=' is not allowed in a string format specifier");
  }
  return spec;
}

std::string format_integer(std::int64_t i, const FormatSpec& spec) {
  const char type = spec.type == 0 || spec.type == 'n' ? 'd' : spec.type;
  if (!is_one_of(type, "bcdoxX")) {
    raise("ValueError", cat("Unknown format code '", type, "' for object of type 'int'"));
  }
  if (spec.precision >= 0) not_allowed("a precision", type);
  if (spec.positive_zero) not_allowed("'z'", type);
  if (type == 'c') {
    if (spec.sign != 0) not_allowed("a sign", type);
    if (spec.alternate) not_allowed("'#'", type);
    return lay_out("", "", character(i), spec);
  }
  const std::uint64_t size =
      i < 0 ? ~static_cast<std::uint64_t>(i) + 1 : static_cast<std::uint64_t>(i);
  const unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'd' ? 10 : 16;
  std::string head = sign_of(i < 0, spec);
  if (spec.alternate && type != 'd') {
    head += '0';
    head += type;
  }
  std::string digits = in_base(size, base, type == 'X');
  const auto least = static_cast<std::size_t>(std::max<std::int64_t>(0, spec.digits));
  if (digits.size() < least) digits.insert(0, least - digits.size(), '0');
  return lay_out(std::move(head), digits, "", spec);
}

std::string format_double(double d, const FormatSpec& spec) {
  const std::string text = magnitude(std::fabs(d), spec);
  bool negative = std::signbit(d) && !std::isnan(d);
  if (spec.positive_zero && text.find_first_of("123456789i") == std::string::npos) negative = false;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  return lay_out(sign_of(negative, spec), std::string_view(text).substr(0, digits),
                 std::string_view(text).substr(digits), spec);
}

void append_padded(Heap& heap, TextBuilder& out, const Val& text, const FormatSpec& spec) {
  const std::string& s = text.string().text;
  const std::size_t end =
      spec.precision >= 0 ? byte_of(s, static_cast<std::size_t>(spec.precision)) : s.size();
  const auto size =
      static_cast<std::int64_t>(count_code_points(std::string_view(s).substr(0, end)));
  const std::int64_t pad = std::max<std::int64_t>(0, spec.width - size);
  const std::int64_t left = spec.align == '<' ? 0 : spec.align == '^' ? pad / 2 : pad;
  const Val fill = plain_string(&heap, spec.fill);
  out.append(repeat(heap, fill, left));
  out.append(text, 0, end);
  out.append(repeat(heap, fill, pad - left));
}

void append_formatted(Heap& heap, TextBuilder& out, const Val& value, std::string_view spec) {
  if (spec.empty()) return out.append_text(value);
  if (value.is(Kind::kString)) {
    return append_padded(heap, out, value, parse_format_spec(spec, value));
  }
  if (!value.is_number()) {
    raise("TypeError",
          cat("unsupported format string passed to ", type_name(value), ".__format__"));
  }
  out.append(format_number(value, parse_format_spec(spec, value)), whole_source(heap, value));
}

std::string ascii(std::string_view repr) {
  std::string out;
  for (std::size_t i = 0; i < repr.size();) {
    const Decoded d = decode_utf8(repr, i);
    if (d.code < 0x80 || d.code == kInvalidCode) {
      out += repr.substr(i, d.length);
    } else {
      char buffer[16];
      std::snprintf(buffer, sizeof buffer,
                    d.code < 0x100     ? "\\x%02x"
                    : d.code < 0x10000 ? "\\u%04x"
                                       : "\\U%08x",
                    static_cast<unsigned>(d.code));
      out += buffer;
    }
    i += d.length;
  }
  return out;
}

}  // namespace glmtune::text::jinja
