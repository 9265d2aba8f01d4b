#pragma once
// Python's string operations on values that carry the source of every byte. Positions are bytes.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/template_value.h"

namespace glmtune::text::jinja {

class TextBuilder {
 public:
  explicit TextBuilder(Heap& heap) : heap_(&heap) {}
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;
  ~TextBuilder() { heap_->release(charged_); }

  void append(std::string_view text, Source source);
  void append(const Val& string) { append(string, 0, string.string().text.size()); }
  void append(const Val& string, std::size_t begin, std::size_t end);
  // str(v): strings as they are, undefined as nothing, everything else as Python prints it.
  void append_text(const Val& v);
  // From here on template text and settings without a message are given this one.
  void attribute_to(std::int32_t message) { message_ = message; }

  std::size_t size() const { return text_.size(); }
  Val take();  // leaves the builder empty
  const std::string& text() const { return text_; }
  const std::vector<Run>& runs() const { return runs_; }

 private:
  Heap* heap_;
  std::string text_;
  std::vector<Run> runs_;
  std::size_t charged_ = 0;
  std::int32_t message_ = -1;
};

Val to_string(Heap& heap, const Val& v);  // str(v)
// Byte position of the code point with this index; the end where there are fewer.
std::size_t byte_of(std::string_view text, std::size_t index);
std::string character(std::int64_t code);  // chr(code)
Val substring(Heap& heap, const Val& s, std::size_t begin, std::size_t end);
Val concat(Heap& heap, const Val& a, const Val& b);
Val repeat(Heap& heap, const Val& s, std::int64_t times);
Val join(Heap& heap, const Val& separator, const std::vector<Val>& items);  // of str(item)
// Without `chars` white space is stripped.
Val strip(Heap& heap, const Val& s, const Val* chars, bool left, bool right);
// Without a separator at white space; max_splits < 0: all.
std::vector<Val> split(Heap& heap, const Val& s, const Val* separator, std::int64_t max_splits,
                       bool from_right);
std::vector<Val> split_lines(Heap& heap, const Val& s, bool keep_ends);
Val replace(Heap& heap, const Val& s, const Val& from, const Val& to, std::int64_t count);

enum class Case { kLower, kUpper, kTitle, kCapitalize, kSwap, kFold };
Val change_case(Heap& heap, const Val& s, Case c);

// s % args and str.format.
Val format_percent(Heap& heap, const Val& format, const Val& args);
Val format_braces(Heap& heap, const Val& format, const std::vector<Val>& positional,
                  const std::vector<std::pair<std::string, Val>>& named);

}  // namespace glmtune::text::jinja
