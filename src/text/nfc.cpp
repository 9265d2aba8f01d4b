#include "text/nfc.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "text/unicode.h"
#include "text/unicode_tables.h"

namespace glmtune::text {
namespace {

// Hangul syllables are composed by arithmetic (Unicode, chapter 3.12).
constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

// In the table of classes: a character of class 0 that may change or join the one before it.
constexpr std::uint8_t kUnsafeStarter = 255;

struct Tables {
  CodeTable classes;                        // combining class, or kUnsafeStarter
  std::vector<Decomposition> compositions;  // sorted by first, second

  Tables() {
    for (const ClassRange& r : kCombiningClasses) classes.set(r.first, r.last, r.combining_class);
    const auto mark = [&](char32_t code) {
      if (classes[code] == 0) classes.set(code, code, kUnsafeStarter);
    };
    for (const Decomposition& d : kDecompositions) {
      if (d.composes) {
        compositions.push_back(d);
        mark(d.second);
      } else {
        mark(d.code);
      }
    }
    for (char32_t v = kVBase; v < kVBase + kVCount; ++v) mark(v);
    for (char32_t t = kTBase + 1; t < kTBase + kTCount; ++t) mark(t);
    std::sort(compositions.begin(), compositions.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first, a.second) < std::pair(b.first, b.second);
    });
  }

  std::uint8_t combining_class(char32_t code) const {
    const std::uint8_t c = classes[code];
    return c == kUnsafeStarter ? 0 : c;
  }

  // 0 where the two do not compose.
  char32_t compose(char32_t a, char32_t b) const {
    if (a >= kLBase && a < kLBase + kLCount && b >= kVBase && b < kVBase + kVCount) {
      return kSBase + ((a - kLBase) * kVCount + (b - kVBase)) * kTCount;
    }
    if (a >= kSBase && a < kSBase + kSCount && (a - kSBase) % kTCount == 0 && b > kTBase &&
        b < kTBase + kTCount) {
      return a + (b - kTBase);
    }
    const auto at = std::lower_bound(compositions.begin(), compositions.end(), std::pair(a, b),
                                     [](const Decomposition& d, const auto& pair) {
                                       return std::pair(d.first, d.second) < pair;
                                     });
    return at != compositions.end() && at->first == a && at->second == b ? at->code : 0;
  }
};

const Tables& tables() {
  static const Tables t;
  return t;
}

void decompose(char32_t code, std::u32string& out) {
  if (code >= kSBase && code < kSBase + kSCount) {
    const char32_t s = code - kSBase;
    out.push_back(kLBase + s / (kVCount * kTCount));
    out.push_back(kVBase + s % (kVCount * kTCount) / kTCount);
    if (s % kTCount != 0) out.push_back(kTBase + s % kTCount);
    return;
  }
  const auto at = std::lower_bound(kDecompositions.begin(), kDecompositions.end(), code,
                                   [](const Decomposition& d, char32_t c) { return d.code < c; });
  if (at == kDecompositions.end() || at->code != code) {
    out.push_back(code);
    return;
  }
  decompose(at->first, out);
  if (at->second != 0) decompose(at->second, out);
}

std::u32string nfc(std::u32string_view source) {
  const Tables& t = tables();
  std::u32string s;
  for (const char32_t code : source) decompose(code, s);
  for (std::size_t i = 0; i < s.size();) {
    std::size_t end = i;
    while (end < s.size() && t.combining_class(s[end]) != 0) ++end;
    std::stable_sort(
        s.begin() + static_cast<std::ptrdiff_t>(i), s.begin() + static_cast<std::ptrdiff_t>(end),
        [&](char32_t a, char32_t b) { return t.combining_class(a) < t.combining_class(b); });
    i = std::max(end, i + 1);
  }
  std::u32string out;
  std::size_t starter = std::u32string::npos;
  int last_class = -1;  // of what was kept after the starter; -1: nothing
  for (const char32_t code : s) {
    const int own_class = t.combining_class(code);
    if (starter != std::u32string::npos && last_class < own_class) {
      const char32_t joined = t.compose(out[starter], code);
      if (joined != 0) {
        out[starter] = joined;
        continue;
      }
    }
    if (own_class == 0) {
      starter = out.size();
      last_class = -1;
    } else {
      last_class = own_class;
    }
    out.push_back(code);
  }
  return out;
}

}  // namespace

std::size_t Normalized::source_begin(std::size_t begin) const {
  const auto after = std::upper_bound(changes.begin(), changes.end(), begin,
                                      [](std::size_t b, const Change& c) { return b < c.begin; });
  if (after == changes.begin()) return begin;
  const Change& c = *std::prev(after);
  return begin < c.end ? c.source_begin : begin - c.end + c.source_end;
}

std::size_t Normalized::source_end(std::size_t end) const {
  const auto after = std::lower_bound(changes.begin(), changes.end(), end,
                                      [](const Change& c, std::size_t e) { return c.begin < e; });
  if (after == changes.begin()) return end;
  const Change& c = *std::prev(after);
  return end <= c.end ? c.source_end : end - c.end + c.source_end;
}

bool is_surely_nfc(std::string_view text) {
  const bool below_marks = std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0xCC;  // U+0300 and on begin with CC 80
  });
  if (below_marks) return true;
  const Tables& t = tables();
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    if (t.classes[d.code] != 0) return false;
    i += d.length;
  }
  return true;
}

Normalized normalize_nfc(std::string_view text) {
  const Tables& t = tables();
  Normalized result;
  std::size_t done = 0;     // bytes of the source already in the result
  std::size_t segment = 0;  // where the last safe starter begins
  std::u32string codes;     // of the segment
  bool unsafe = false;      // the segment holds something that may change
  const auto close = [&](std::size_t end) {
    if (unsafe) {
      std::string rewritten;
      for (const char32_t code : nfc(codes)) append_utf8(rewritten, code);
      const std::string_view was = text.substr(segment, end - segment);
      if (rewritten != was) {
        result.text.append(text.substr(done, segment - done));
        const std::size_t begin = result.text.size();
        result.text += rewritten;
        result.changes.push_back({begin, result.text.size(), segment, end});
        done = end;
      }
    }
    segment = end;
    codes.clear();
    unsafe = false;
  };
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    if (d.code == kInvalidCode) {
      close(i);
      segment = i += d.length;
      continue;
    }
    if (t.classes[d.code] == 0) {
      close(i);
    } else {
      unsafe = true;
    }
    codes.push_back(d.code);
    i += d.length;
  }
  close(text.size());
  result.text.append(text.substr(done));
  return result;
}

}  // namespace glmtune::text
