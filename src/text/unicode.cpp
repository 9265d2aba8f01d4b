#include "text/unicode.h"

#include <algorithm>

#include "text/unicode_tables.h"

namespace glmtune::text {
namespace {

bool contains(std::span<const CodeRange> ranges, char32_t code) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                      [](char32_t c, const CodeRange& r) { return c < r.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

bool in_case_range(const CaseRange& r, char32_t code) {
  return code >= r.first && code <= r.last &&
         (code - r.first) % static_cast<char32_t>(r.stride) == 0;
}

bool append_several(std::string& out, char32_t code, std::span<const CaseSeveral> several) {
  for (const CaseSeveral& s : several) {
    if (s.code != code) continue;
    for (const char32_t to : s.to) {
      if (to != 0) append_utf8(out, to);
    }
    return true;
  }
  return false;
}

char32_t shifted(char32_t code, std::int32_t delta) {
  return static_cast<char32_t>(static_cast<std::int32_t>(code) + delta);
}

void append_mapped(std::string& out, char32_t code, std::span<const CaseRange> ranges,
                   std::span<const CaseSeveral> several) {
  if (append_several(out, code, several)) return;
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                      [](char32_t c, const CaseRange& r) { return c < r.first; });
  if (after != ranges.begin() && in_case_range(*std::prev(after), code)) {
    code = shifted(code, std::prev(after)->delta);
  }
  append_utf8(out, code);
}

}  // namespace

Decoded decode_utf8_slow(std::string_view text, std::size_t pos) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned b0 = byte(pos);
  if (b0 < 0x80) return {b0, 1};
  const std::size_t length = b0 >= 0xF0 ? 4 : b0 >= 0xE0 ? 3 : 2;
  if (b0 < 0xC2 || b0 > 0xF4) return {kInvalidCode, 1};
  char32_t code = b0 & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(pos + i) & 0xC0U) != 0x80) return {kInvalidCode, 1};
    code = code << 6U | (byte(pos + i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    return {kInvalidCode, 1};
  }
  return {code, length};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | code >> 6U);
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | code >> 12U);
    put(0x80U | (code >> 6U & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | code >> 18U);
    put(0x80U | (code >> 12U & 0x3FU));
    put(0x80U | (code >> 6U & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size();) {
    const Decoded d = decode_utf8(bytes, i);
    if (d.code != kInvalidCode) {
      out.append(bytes.substr(i, d.length));
      i += d.length;
      continue;
    }
    out += "\xEF\xBF\xBD";
    // The bytes that could still have become a code point count as one invalid part: every prefix
    // of a valid sequence, found by completing it with the least and greatest continuation bytes.
    std::size_t part = 1;
    const auto b0 = static_cast<unsigned char>(bytes[i]);
    const std::size_t length = b0 >= 0xF0 ? 4 : b0 >= 0xE0 ? 3 : b0 >= 0xC0 ? 2 : 1;
    while (part < length && i + part < bytes.size()) {
      std::string low(bytes.substr(i, part + 1));
      std::string high = low;
      low.resize(length, '\x80');
      high.resize(length, '\xBF');
      if (decode_utf8(low, 0).code == kInvalidCode && decode_utf8(high, 0).code == kInvalidCode) {
        break;
      }
      ++part;
    }
    i += part;
  }
  return out;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80;
  }));
}

CodeTable::CodeTable() : shared_{true} {
  pages_.emplace_back().fill(0);
}

void CodeTable::set(char32_t first, char32_t last, std::uint8_t value) {
  for (char32_t code = first; code <= last; ++code) {
    std::uint16_t& page = page_of_[code >> 8U];
    if ((code & 0xFFU) == 0 && last - code >= 0xFF) {
      const auto same = std::find_if(pages_.begin(), pages_.end(), [&](const auto& p) {
        return std::all_of(p.begin(), p.end(), [&](std::uint8_t v) { return v == value; });
      });
      page = static_cast<std::uint16_t>(same - pages_.begin());
      if (same == pages_.end()) {
        pages_.emplace_back().fill(value);
        shared_.push_back(true);
      }
      shared_[page] = true;
      code += 0xFF;
      continue;
    }
    if (shared_[page]) {
      const auto copy = pages_[page];
      page = static_cast<std::uint16_t>(pages_.size());
      pages_.push_back(copy);
      shared_.push_back(false);
    }
    pages_[page][code & 0xFFU] = value;
  }
}

const CodeTable& char_classes() {
  static const CodeTable table = [] {
    CodeTable t;
    for (const CodeRange& r : kLetters) t.set(r.first, r.last, kLetter);
    for (const CodeRange& r : kNumbers) t.set(r.first, r.last, kNumber);
    for (const CodeRange& r : kSpaces) t.set(r.first, r.last, kSpace);
    return t;
  }();
  return table;
}

bool is_python_space(char32_t code) {
  return (code >= 0x1C && code <= 0x1F) || contains(kSpaces, code);
}

bool is_printable(char32_t code) {
  return !contains(kNotPrintable, code);
}

bool is_cased(char32_t code) {
  return contains(kCased, code);
}

void append_lower(std::string& out, char32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code));
  } else {
    append_mapped(out, code, kLower, kLowerSeveral);
  }
}

void append_upper(std::string& out, char32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code >= 'a' && code <= 'z' ? code - 32 : code));
  } else {
    append_mapped(out, code, kUpper, kUpperSeveral);
  }
}

void append_title(std::string& out, char32_t code) {
  if (append_several(out, code, kTitleSeveral)) return;
  for (const CaseRange& r : kTitle) {
    if (in_case_range(r, code)) return append_utf8(out, shifted(code, r.delta));
  }
  append_upper(out, code);
}

}  // namespace glmtune::text
