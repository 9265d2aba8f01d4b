#include "text/template_string.h"

#include <algorithm>

#include "base/cat.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80;
}

std::size_t previous(std::string_view text, std::size_t pos) {
  do {
    --pos;
  } while (pos > 0 && is_continuation(text[pos]));
  return pos;
}

bool is_space_at(std::string_view text, std::size_t pos) {
  return is_python_space(decode_utf8(text, pos).code);
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

std::vector<Val> split_at_space(Heap& heap, const Val& s, std::int64_t max_splits,
                                bool from_right) {
  const std::string& text = s.string().text;
  std::vector<Val> out;
  std::size_t begin = 0;
  std::size_t end = text.size();
  const auto skip_left = [&] {
    while (begin < end && is_space_at(text, begin)) begin += decode_utf8(text, begin).length;
  };
  const auto skip_right = [&] {
    while (end > begin && is_space_at(text, previous(text, end))) end = previous(text, end);
  };
  if (from_right) {
    for (skip_right(); begin < end; skip_right()) {
      std::size_t word = end;
      if (max_splits >= 0 && out.size() == static_cast<std::size_t>(max_splits)) {
        word = begin;
      } else {
        while (word > begin && !is_space_at(text, previous(text, word))) {
          word = previous(text, word);
        }
      }
      out.push_back(substring(heap, s, word, end));
      end = word;
    }
    std::reverse(out.begin(), out.end());
    return out;
  }
  for (skip_left(); begin < end; skip_left()) {
    std::size_t word = begin;
    if (max_splits >= 0 && out.size() == static_cast<std::size_t>(max_splits)) {
      word = end;
    } else {
      while (word < end && !is_space_at(text, word)) word += decode_utf8(text, word).length;
    }
    out.push_back(substring(heap, s, begin, word));
    begin = word;
  }
  return out;
}

}  // namespace

void TextBuilder::append(std::string_view text, Source source) {
  if (text.empty()) return;
  if (text_.size() + text.size() > charged_) {
    const std::size_t more = std::max<std::size_t>(text_.size() + text.size() - charged_, 256);
    heap_->charge(more);
    charged_ += more;
  }
  heap_->step(text.size() / 64);
  if (message_ >= 0 && source.origin != Origin::kData && source.message < 0) {
    source.message = message_;
  }
  text_ += text;
  if (!runs_.empty() && runs_.back().source == source) {
    runs_.back().end = text_.size();
  } else {
    runs_.push_back({text_.size(), source});
  }
}

void TextBuilder::append(const Val& string, std::size_t begin, std::size_t end) {
  const StringObject& s = string.string();
  const std::string_view text = s.text;
  if (s.runs.empty()) return append(text.substr(begin, end - begin), string.source);
  std::size_t at = begin;
  auto run = std::upper_bound(s.runs.begin(), s.runs.end(), begin,
                              [](std::size_t b, const Run& r) { return b < r.end; });
  for (; at < end && run != s.runs.end(); ++run) {
    const std::size_t stop = std::min(end, run->end);
    append(text.substr(at, stop - at), run->source);
    at = stop;
  }
}

void TextBuilder::append_text(const Val& v) {
  if (v.is(Kind::kString)) return append(v);
  if (v.is(Kind::kUndefined)) return;
  append(repr(*heap_, v), whole_source(*heap_, v));
}

Val TextBuilder::take() {
  Source source;
  if (runs_.size() <= 1) {
    if (!runs_.empty()) source = runs_[0].source;
    runs_.clear();
  }
  heap_->release(charged_);
  charged_ = 0;
  Val v;
  v.kind = Kind::kString;
  v.source = source;
  v.object = std::make_shared<StringObject>(heap_, std::move(text_), std::move(runs_));
  text_.clear();
  runs_.clear();
  return v;
}

Val to_string(Heap& heap, const Val& v) {
  if (v.is(Kind::kString)) return v;
  TextBuilder b(heap);
  b.append_text(v);
  return b.take();
}

std::size_t byte_of(std::string_view text, std::size_t index) {
  std::size_t i = 0;
  for (; index > 0 && i < text.size(); --index) i += decode_utf8(text, i).length;
  return i;
}

std::string character(std::int64_t code) {
  if (code < 0 || code > 0x10FFFF) {
    raise("OverflowError", cat("a character must be in range(0x110000), found ", code));
  }
  if (code >= 0xD800 && code < 0xE000) {
    raise("UnicodeEncodeError", cat("the code point ", code, " is a surrogate, not a character"));
  }
  std::string out;
  append_utf8(out, static_cast<char32_t>(code));
  return out;
}

Val substring(Heap& heap, const Val& s, std::size_t begin, std::size_t end) {
  if (begin == 0 && end == s.string().text.size()) return s;
  TextBuilder b(heap);
  if (begin < end) b.append(s, begin, end);
  Val v = b.take();
  if (begin >= end) v.source = s.source;
  return v;
}

Val concat(Heap& heap, const Val& a, const Val& b) {
  TextBuilder out(heap);
  out.append(a);
  out.append(b);
  return out.take();
}

Val repeat(Heap& heap, const Val& s, std::int64_t times) {
  TextBuilder out(heap);
  const std::size_t size = s.string().text.size();
  if (times > 0 && size > 0) {
    if (static_cast<std::size_t>(times) > (std::size_t(1) << 40U) / size) {
      raise("MemoryError", "a string would become too long");
    }
    heap.expect(size * static_cast<std::size_t>(times));
    for (std::int64_t i = 0; i < times; ++i) {
      heap.step();
      out.append(s);
    }
  }
  return out.take();
}

Val join(Heap& heap, const Val& separator, const std::vector<Val>& items) {
  TextBuilder out(heap);
  bool first = true;
  for (const Val& item : items) {
    heap.step();
    if (!first) out.append(separator);
    out.append_text(item);
    first = false;
  }
  return out.take();
}

Val strip(Heap& heap, const Val& s, const Val* chars, bool left, bool right) {
  const std::string& text = s.string().text;
  const auto strips = [&](std::size_t pos) {
    if (chars == nullptr) return is_space_at(text, pos);
    const std::string_view one = std::string_view(text).substr(pos, decode_utf8(text, pos).length);
    return chars->string().text.find(one) != std::string::npos;
  };
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (left && begin < end && strips(begin)) begin += decode_utf8(text, begin).length;
  while (right && end > begin && strips(previous(text, end))) end = previous(text, end);
  return substring(heap, s, begin, end);
}

std::vector<Val> split(Heap& heap, const Val& s, const Val* separator, std::int64_t max_splits,
                       bool from_right) {
  if (separator == nullptr) return split_at_space(heap, s, max_splits, from_right);
  const std::string& text = s.string().text;
  const std::string& by = separator->string().text;
  if (by.empty()) raise("ValueError", "empty separator");
  std::vector<Val> out;
  const auto may_split = [&] {
    heap.step();
    return max_splits < 0 || out.size() < static_cast<std::size_t>(max_splits);
  };
  if (from_right) {
    std::size_t end = text.size();
    while (may_split() && end >= by.size()) {
      const std::size_t at = text.rfind(by, end - by.size());
      if (at == std::string::npos) break;
      out.push_back(substring(heap, s, at + by.size(), end));
      end = at;
    }
    out.push_back(substring(heap, s, 0, end));
    std::reverse(out.begin(), out.end());
    return out;
  }
  std::size_t begin = 0;
  while (may_split()) {
    const std::size_t at = text.find(by, begin);
    if (at == std::string::npos) break;
    out.push_back(substring(heap, s, begin, at));
    begin = at + by.size();
  }
  out.push_back(substring(heap, s, begin, text.size()));
  return out;
}

std::vector<Val> split_lines(Heap& heap, const Val& s, bool keep_ends) {
  const std::string& text = s.string().text;
  std::vector<Val> out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    std::size_t after = i + d.length;
    if (is_line_end(d.code)) {
      if (d.code == '\r' && after < text.size() && text[after] == '\n') ++after;
      heap.step();
      out.push_back(substring(heap, s, begin, keep_ends ? after : i));
      begin = after;
    }
    i = after;
  }
  if (begin < text.size()) out.push_back(substring(heap, s, begin, text.size()));
  return out;
}

Val replace(Heap& heap, const Val& s, const Val& from, const Val& to, std::int64_t count) {
  const std::string& text = s.string().text;
  const std::string& old = from.string().text;
  TextBuilder out(heap);
  std::size_t begin = 0;
  if (old.empty()) {  // before every character and at the end
    for (std::size_t i = 0; count != 0; --count) {
      heap.step();
      out.append(to);
      if (i >= text.size()) break;
      begin = i + decode_utf8(text, i).length;
      out.append(s, i, begin);
      i = begin;
    }
  } else {
    for (; count != 0; --count) {
      heap.step();
      const std::size_t at = text.find(old, begin);
      if (at == std::string::npos) break;
      out.append(s, begin, at);
      out.append(to);
      begin = at + old.size();
    }
  }
  out.append(s, begin, text.size());
  return out.take();
}

Val change_case(Heap& heap, const Val& s, Case c) {
  const std::string& text = s.string().text;
  heap.step(text.size() / 8);
  TextBuilder out(heap);
  std::string mapped;
  std::size_t run = 0;
  bool after_cased = false;
  const auto& runs = s.string().runs;
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    while (run < runs.size() && runs[run].end <= i) ++run;
    const Source source = runs.empty() ? s.source : runs[run].source;
    mapped.clear();
    const bool first = c == Case::kCapitalize ? i == 0 : !after_cased;
    if (d.code == kInvalidCode) {
      mapped = text[i];
    } else if (c == Case::kFold) {
      append_folded(mapped, d.code);
    } else if (c == Case::kUpper) {
      append_upper(mapped, d.code);
    } else if ((c == Case::kTitle || c == Case::kCapitalize) && first) {
      append_title(mapped, d.code);
    } else if (c == Case::kSwap && !is_uppercase(d.code)) {
      is_lowercase(d.code) ? append_upper(mapped, d.code) : append_utf8(mapped, d.code);
    } else if (d.code == 0x3A3) {
      // A capital sigma at the end of a word becomes the final sigma.
      const std::size_t next = i + d.length;
      const bool more = next < text.size() && is_cased(decode_utf8(text, next).code);
      append_utf8(mapped, after_cased && !more ? 0x3C2 : 0x3C3);
    } else {
      append_lower(mapped, d.code);
    }
    out.append(mapped, source);
    after_cased = is_cased(d.code);
    i += d.length;
  }
  return out.take();
}

}  // namespace glmtune::text::jinja
