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

// The range of a sorted table that holds `code`, or null.
const CaseRange* range_of(std::span<const CaseRange> ranges, char32_t code) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                      [](char32_t c, const CaseRange& r) { return c < r.first; });
  if (after == ranges.begin() || !in_case_range(*std::prev(after), code)) return nullptr;
  return &*std::prev(after);
}

char32_t shifted(char32_t code, std::int32_t delta) {
  return static_cast<char32_t>(static_cast<std::int32_t>(code) + delta);
}

void append_mapped(std::string& out, char32_t code, std::span<const CaseRange> ranges,
                   std::span<const CaseSeveral> several) {
  if (append_several(out, code, several)) return;
  if (const CaseRange* r = range_of(ranges, code)) code = shifted(code, r->delta);
  append_utf8(out, code);
}

}  // namespace

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

bool is_word_character(char32_t code) {
  return contains(kWordCharacters, code);
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

bool is_lowercase(char32_t code) {
  return range_of(kLowercase, code) != nullptr;
}

bool is_titlecase(char32_t code) {
  return range_of(kTitlecase, code) != nullptr;
}

bool is_uppercase(char32_t code) {
  return is_cased(code) && !is_lowercase(code) && !is_titlecase(code);
}

bool is_decimal(char32_t code) {
  return range_of(kDecimals, code) != nullptr;
}

bool is_digit(char32_t code) {
  return is_decimal(code) || range_of(kDigits, code) != nullptr;
}

bool is_numeric(char32_t code) {
  return is_digit(code) || range_of(kNumerics, code) != nullptr;
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

void append_folded(std::string& out, char32_t code) {
  if (append_several(out, code, kFoldSeveral)) return;
  if (const CaseRange* r = range_of(kFold, code)) {
    append_utf8(out, shifted(code, r->delta));
  } else {
    append_lower(out, code);
  }
}

}  // namespace glmtune::text
