// Filters that rewrite a text as a whole: for the web, for terminals, for people.
#include <algorithm>
#include <cmath>

#include "base/cat.h"
#include "text/html_entities.h"
#include "text/template_filter.h"
#include "text/template_format.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

// Percent-encodes what is neither a letter, a digit, nor one of _ . - ~ and `also`.
void append_quoted(TextBuilder& out, const Val& text, std::string_view also, bool plus) {
  const std::string& s = text.string().text;
  const auto kept = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_.-~").find(c) != std::string_view::npos ||
           also.find(c) != std::string_view::npos;
  };
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t begin = i;
    while (i < s.size() && kept(s[i])) ++i;
    out.append(text, begin, i);
    if (i == s.size()) break;
    constexpr std::string_view kHex = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(s[i++]);
    if (plus && byte == ' ') {
      out.append("+", {});
    } else {
      const char code[] = {'%', kHex[byte >> 4U], kHex[byte & 15U]};
      out.append(std::string_view(code, 3), {});
    }
  }
}

Val urlencode(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "urlencode", {});
  TextBuilder out(rt.heap);
  if (!v.is(Kind::kDict) && !v.is_sequence() && !v.is(Kind::kUndefined)) {
    append_quoted(out, to_string(rt.heap, v), "/", false);
    return out.take();
  }
  const auto add = [&](const Val& key, const Val& value) {
    if (out.size() > 0) out.append("&", {});
    append_quoted(out, to_string(rt.heap, key), "", true);
    out.append("=", {});
    append_quoted(out, to_string(rt.heap, value), "", true);
  };
  if (v.is(Kind::kDict)) {
    v.dict().read_all();
    for (const auto& [key, value] : v.dict().items) add(key, value);
    return out.take();
  }
  const auto all = elements(rt.heap, v);
  for (const Val& pair : all->items) {
    const auto both = elements(rt.heap, pair);
    if (both->items.size() != 2) raise("ValueError", "urlencode needs pairs");
    add(both->items[0], both->items[1]);
  }
  return out.take();
}

// Without comments and tags, white space as single spaces, entities as characters.
Val striptags(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "striptags", {});
  const Val all = to_string(rt.heap, v);
  const std::string& text = all.string().text;
  TextBuilder kept(rt.heap);
  std::size_t pos = 0;
  for (std::size_t start = 0; (start = text.find('<', pos)) != std::string::npos;) {
    const bool comment = text.compare(start, 4, "<!--") == 0;
    const std::size_t end = comment ? text.find("-->", start + 4) : text.find('>', start);
    if (end == std::string::npos) break;
    kept.append(all, pos, start);
    pos = end + (comment ? 3 : 1);
  }
  kept.append(all, pos, text.size());
  const Val spaced =
      join(rt.heap, plain_string(&rt.heap, " "), split(rt.heap, kept.take(), nullptr, -1, false));
  const std::string& s = spaced.string().text;
  TextBuilder out(rt.heap);
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t amp = std::min(s.find('&', i), s.size());
    out.append(spaced, i, amp);
    if (amp == s.size()) break;
    const Entity entity = read_entity(std::string_view(s).substr(amp));
    const Val spelling =
        substring(rt.heap, spaced, amp, amp + std::max<std::size_t>(1, entity.size));
    if (entity.size == 0) {
      out.append(spelling);
    } else {
      out.append(entity.text, whole_source(rt.heap, spelling));
    }
    i = amp + std::max<std::size_t>(1, entity.size);
  }
  return out.take();
}

// A piece of a line that is not broken: bytes and characters.
struct Chunk {
  std::size_t begin, end;
  std::int64_t length;
};

bool is_break_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_word(char32_t c) {
  return char_classes()[c] == kLetter || is_numeric(c) || c == '_';
}
bool is_letter(char32_t c) {
  return is_word(c) && !is_decimal(c);
}
// What may stand before a dash between words.
bool is_word_punctuation(char32_t c) {
  return is_word(c) || (c < 0x80 && std::string_view("!\"'&.,?").find(static_cast<char>(c)) !=
                                        std::string_view::npos);
}

// Where Python's textwrap may break a line: around white space, after hyphens within words, and
// around dashes of two or more hyphens between words.
class Chunker {
 public:
  Chunker(std::string_view line, bool at_hyphens) : at_hyphens_(at_hyphens) {
    for (std::size_t i = 0; i < line.size();) {
      const Decoded d = decode_utf8(line, i);
      codes_.push_back(d.code);
      places_.push_back(i);
      i += d.length;
    }
    places_.push_back(line.size());
  }
  std::vector<Chunk> run() const {
    std::vector<Chunk> out;
    for (std::size_t i = 0; i < codes_.size();) {
      const std::size_t end = chunk_end(i);
      out.push_back({places_[i], places_[end], static_cast<std::int64_t>(end - i)});
      i = end;
    }
    return out;
  }

 private:
  bool space(std::size_t i) const {
    return codes_[i] < 0x80 && is_break_space(static_cast<char>(codes_[i]));
  }
  bool holds(bool (*what)(char32_t), std::size_t i) const {
    return i < codes_.size() && what(codes_[i]);
  }
  // The end of the dash that begins at i and stands before a word, or i.
  std::size_t dash_end(std::size_t i) const {
    std::size_t end = i;
    while (end < codes_.size() && codes_[end] == '-') ++end;
    return end >= i + 2 && holds(is_word, end) && i > 0 && is_word_punctuation(codes_[i - 1]) ? end
                                                                                              : i;
  }
  bool is_hyphen_in_word(std::size_t i) const {
    if (codes_[i] != '-') return false;
    const bool after_two = i >= 2 && is_letter(codes_[i - 1]) && is_letter(codes_[i - 2]);
    const bool after_hyphen = i >= 3 && is_word_punctuation(codes_[i - 1]) &&
                              codes_[i - 2] == '-' && is_letter(codes_[i - 3]);
    if (!after_two && !after_hyphen) return false;
    const std::size_t second = i + 2 < codes_.size() && codes_[i + 2] == '-' ? i + 3 : i + 2;
    return holds(is_letter, i + 1) && holds(is_letter, second);
  }
  std::size_t chunk_end(std::size_t i) const {
    std::size_t end = i + 1;
    if (space(i)) {
      while (end < codes_.size() && space(end)) ++end;
      return end;
    }
    if (at_hyphens_ && dash_end(i) > i) return dash_end(i);
    for (; end < codes_.size() && !space(end); ++end) {
      if (!at_hyphens_) continue;
      if (is_hyphen_in_word(end)) return end + 1;
      if (dash_end(end) > end) return end;
    }
    return end;
  }

  bool at_hyphens_;
  std::vector<char32_t> codes_;
  std::vector<std::size_t> places_;
};

struct WrapOptions {
  std::int64_t width = 79;
  bool break_long_words = true;
  bool at_hyphens = true;
};

// The lines that a line is wrapped into, each from its first to its last byte.
std::vector<std::pair<std::size_t, std::size_t>> wrapped(const std::string& line,
                                                         const WrapOptions& options) {
  std::vector<std::pair<std::size_t, std::size_t>> lines;
  std::vector<Chunk> chunks = Chunker(line, options.at_hyphens).run();
  std::reverse(chunks.begin(), chunks.end());
  const auto blank = [&](const Chunk& c) {
    for (std::size_t i = c.begin; i < c.end; i += decode_utf8(line, i).length) {
      if (!is_python_space(decode_utf8(line, i).code)) return false;
    }
    return true;
  };
  while (!chunks.empty()) {
    if (!lines.empty() && blank(chunks.back())) chunks.pop_back();
    std::vector<Chunk> current;
    std::int64_t length = 0;
    while (!chunks.empty() && length + chunks.back().length <= options.width) {
      length += chunks.back().length;
      current.push_back(chunks.back());
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().length > options.width) {
      Chunk& longest = chunks.back();
      if (options.break_long_words) {
        const std::string_view text =
            std::string_view(line).substr(longest.begin, longest.end - longest.begin);
        std::int64_t take = options.width - length;
        if (options.at_hyphens && longest.length > take) {
          const std::size_t hyphen =
              text.substr(0, byte_of(text, static_cast<std::size_t>(take))).rfind('-');
          if (hyphen != std::string_view::npos && hyphen > 0 &&
              text.find_first_not_of('-') < hyphen) {
            take = static_cast<std::int64_t>(count_code_points(text.substr(0, hyphen + 1)));
          }
        }
        const std::size_t cut = longest.begin + byte_of(text, static_cast<std::size_t>(take));
        current.push_back({longest.begin, cut, take});
        longest.begin = cut;
        longest.length -= take;
      } else if (current.empty()) {
        current.push_back(longest);
        chunks.pop_back();
      }
    }
    if (!current.empty() && blank(current.back())) current.pop_back();
    if (!current.empty()) lines.emplace_back(current.front().begin, current.back().end);
  }
  return lines;
}

Val wordwrap(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "wordwrap", {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  if (v.is(Kind::kUndefined)) undefined_error(v);
  if (!v.is(Kind::kString))
    raise("AttributeError", cat("wordwrap needs a text, not ", type_name(v)));
  const WrapOptions options{.width = p[0] != nullptr ? as_int(*p[0], "wordwrap") : 79,
                            .break_long_words = p.flag(1, true),
                            .at_hyphens = p.flag(3, true)};
  const Val by = p.given(2) != nullptr ? p.string(2) : plain_string(&rt.heap, "\n");
  TextBuilder out(rt.heap);
  bool first = true;
  for (const Val& line : split_lines(rt.heap, v, false)) {
    if (options.width <= 0) {
      raise("ValueError", cat("invalid width ", options.width, " (must be > 0)"));
    }
    rt.heap.step(line.string().text.size());
    if (!std::exchange(first, false)) out.append(by);
    bool first_part = true;
    for (const auto& [begin, end] : wrapped(line.string().text, options)) {
      if (!std::exchange(first_part, false)) out.append(by);
      out.append(line, begin, end);
    }
  }
  return out.take();
}

Val filesizeformat(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "filesizeformat", {"binary"});
  const bool binary = p.flag(0, false);
  const double bytes = to_double(rt, v);
  const double base = binary ? 1024 : 1000;
  std::string text;
  if (bytes == 1) {
    text = "1 Byte";
  } else if (bytes < base) {
    if (std::isnan(bytes) || std::isinf(bytes)) {
      raise(std::isnan(bytes) ? "ValueError" : "OverflowError", "cannot convert to integer");
    }
    text = cat(static_cast<std::int64_t>(bytes), " Bytes");
  } else {
    constexpr std::string_view kPrefixes = "kMGTPEZY";
    double unit = base * base;
    std::size_t i = 0;
    for (; i + 1 < kPrefixes.size() && bytes >= unit; ++i) unit *= base;
    const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
    FormatSpec one_digit;
    one_digit.precision = 1;
    one_digit.type = 'f';
    text = cat(format_double(base * bytes / unit, one_digit), " ", prefix, binary ? "iB" : "B");
  }
  return plain_string(&rt.heap, text, whole_source(rt.heap, v));
}

Val xmlattr(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "xmlattr", {"autospace"});
  if (v.is(Kind::kUndefined)) undefined_error(v);
  if (!v.is(Kind::kDict)) raise("AttributeError", "xmlattr needs a mapping");
  v.dict().read_all();
  TextBuilder out(rt.heap);
  for (const auto& [key, value] : v.dict().items) {
    if (value.is(Kind::kNone) || value.is(Kind::kUndefined)) continue;
    if (!key.is(Kind::kString)) raise("TypeError", "attribute names must be str");
    const std::string& name = key.string().text;
    for (std::size_t i = 0; i < name.size(); i += decode_utf8(name, i).length) {
      const char32_t c = decode_utf8(name, i).code;
      if (is_python_space(c) || c == '/' || c == '>' || c == '=') {
        raise("ValueError", cat("Invalid character in attribute name: '", name, "'"));
      }
    }
    if (out.size() > 0 || p.flag(0, true)) out.append(" ", {});
    out.append(apply_filter(rt, "escape", key, {}));
    out.append("=\"", {});
    out.append(apply_filter(rt, "escape", value, {}));
    out.append("\"", {});
  }
  return out.take();
}

struct Named {
  std::string_view name;
  Val (*filter)(Runtime&, const Val&, const Args&);
};
constexpr Named kFilters[] = {
    {"filesizeformat", filesizeformat}, {"pprint", pretty_print}, {"striptags", striptags},
    {"urlencode", urlencode},           {"wordwrap", wordwrap},   {"xmlattr", xmlattr},
};

}  // namespace

FilterFunction text_filter(std::string_view name) {
  for (const Named& f : kFilters) {
    if (f.name == name) return f.filter;
  }
  return nullptr;
}

}  // namespace glmtune::text::jinja
