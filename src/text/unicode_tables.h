#pragma once
// The generated Unicode tables (tools/make_unicode_tables.py); used through unicode.h.
#include <cstdint>
#include <span>

namespace glmtune::text {

struct CodeRange {
  char32_t first, last;  // inclusive
};
struct ClassRange {
  char32_t first, last;
  std::uint8_t combining_class;
};
// Canonical decomposition into first and second (0: into first alone).
struct Decomposition {
  char32_t code, first, second;
  bool composes;  // NFC joins the two again
};
// Code points first, first + stride, ..., last map to themselves + delta.
struct CaseRange {
  char32_t first, last;
  std::int32_t stride, delta;
};
struct CaseSeveral {
  char32_t code, to[3];  // zeros after the last
};

// All sorted by their first member, except that kTitle is in two sorted parts.
extern const std::span<const CodeRange> kLetters, kNumbers, kSpaces, kWordCharacters, kNotPrintable,
    kCased;
extern const std::span<const ClassRange> kCombiningClasses;
extern const std::span<const Decomposition> kDecompositions;
// kTitle only holds what differs from upper case.
extern const std::span<const CaseRange> kLower, kUpper, kTitle;
extern const std::span<const CaseSeveral> kLowerSeveral, kUpperSeveral, kTitleSeveral;
// kFold only holds where str.casefold differs from lower case.
extern const std::span<const CaseRange> kFold;
extern const std::span<const CaseSeveral> kFoldSeveral;
// Sets; their deltas are 0. kDigits are no decimals, kNumerics no digits.
extern const std::span<const CaseRange> kLowercase, kTitlecase, kDecimals, kDigits, kNumerics;

}  // namespace glmtune::text
