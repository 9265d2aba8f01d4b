#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <system_error>
#include <unordered_set>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/utf8.h"

namespace glmtune::io {
namespace {

constexpr int kMaxDepth = 512;
constexpr std::size_t kHashKeysFrom = 32;  // members beyond which duplicates are looked up by hash

class Parser {
 public:
  Parser(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  Value document() {
    if (text_.starts_with("\xEF\xBB\xBF")) error("a byte order mark; save the file without it");
    skip_space();
    Value v = value(0);
    skip_space();
    if (pos_ != text_.size()) error("text after the end of the JSON value");
    return v;
  }

 private:
  [[noreturn]] void error(const std::string& what) const { error_at(pos_, what); }

  [[noreturn]] void error_at(std::size_t at, const std::string& what) const {
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t i = 0; i < std::min(at, text_.size()); ++i) {
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      } else if ((static_cast<unsigned char>(text_[i]) & 0xC0U) != 0x80U) {
        ++column;
      }
    }
    fail(cat(where_, ": line ", line, ", column ", column, ": ", what));
  }

  bool at_end() const { return pos_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[pos_]; }

  void skip_space() {
    while (!at_end()) {
      const char c = text_[pos_];
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
      ++pos_;
    }
  }

  std::string found() const {
    if (at_end()) return "the end of the text";
    const Decoded d = decode_utf8(text_, pos_);
    if (d.code < 0x20 || d.code == kInvalidCode) {
      return cat("byte ", int{static_cast<unsigned char>(text_[pos_])});
    }
    return cat("'", text_.substr(pos_, d.length), "'");
  }

  bool word(std::string_view w) {
    if (!text_.substr(pos_).starts_with(w)) return false;
    pos_ += w.size();
    return true;
  }

  Value value(int depth) {
    if (depth > kMaxDepth) error(cat("nested deeper than ", kMaxDepth, " levels"));
    switch (peek()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return Value(string());
      case 't':
        if (word("true")) return Value(true);
        break;
      case 'f':
        if (word("false")) return Value(false);
        break;
      case 'n':
        if (word("null")) return Value();
        break;
      case 'N':
      case 'I':
        error("NaN and Infinity are not JSON numbers");
      default:
        if (peek() == '-' || (peek() >= '0' && peek() <= '9')) return number();
    }
    error(cat("expected a value, found ", found()));
  }

  Value array(int depth) {
    ++pos_;
    Value::Array items;
    skip_space();
    if (peek() == ']') {
      ++pos_;
      return Value(std::move(items));
    }
    while (true) {
      skip_space();
      items.push_back(value(depth + 1));
      skip_space();
      const char c = peek();
      if (c != ',' && c != ']') error(cat("expected ',' or ']' in an array, found ", found()));
      ++pos_;
      if (c == ']') return Value(std::move(items));
    }
  }

  Value object(int depth) {
    ++pos_;
    Value::Object members;
    std::unordered_set<std::string> keys;
    skip_space();
    if (peek() == '}') {
      ++pos_;
      return Value(std::move(members));
    }
    while (true) {
      skip_space();
      if (peek() != '"') error(cat("expected a quoted key, found ", found()));
      const std::size_t key_at = pos_;
      std::string key = string();
      if (is_duplicate(members, keys, key)) error_at(key_at, cat("duplicate key \"", key, "\""));
      skip_space();
      if (peek() != ':') error(cat("expected ':' after a key, found ", found()));
      ++pos_;
      skip_space();
      members.emplace_back(std::move(key), value(depth + 1));
      skip_space();
      const char c = peek();
      if (c != ',' && c != '}') error(cat("expected ',' or '}' in an object, found ", found()));
      ++pos_;
      if (c == '}') return Value(std::move(members));
    }
  }

  static bool is_duplicate(const Value::Object& members, std::unordered_set<std::string>& keys,
                           const std::string& key) {
    if (members.size() < kHashKeysFrom) {
      return std::any_of(members.begin(), members.end(),
                         [&](const Value::Member& m) { return m.first == key; });
    }
    if (keys.empty()) {
      for (const Value::Member& m : members) keys.insert(m.first);
    }
    return !keys.insert(key).second;
  }

  unsigned hex4() {
    unsigned code = 0;
    if (pos_ + 4 > text_.size()) error("an escape \\u needs four hexadecimal digits");
    const char* first = text_.data() + pos_;
    const auto [end, ec] = std::from_chars(first, first + 4, code, 16);
    if (ec != std::errc() || end != first + 4 || *first == '-') {
      error("an escape \\u needs four hexadecimal digits");
    }
    pos_ += 4;
    return code;
  }

  void escape(std::string& out) {
    const std::size_t start = pos_ - 1;  // of the backslash
    const char c = peek();
    ++pos_;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        out.push_back(c);
        return;
      case 'b':
        out.push_back('\b');
        return;
      case 'f':
        out.push_back('\f');
        return;
      case 'n':
        out.push_back('\n');
        return;
      case 'r':
        out.push_back('\r');
        return;
      case 't':
        out.push_back('\t');
        return;
      case 'u':
        break;
      default:
        error_at(start, "an unknown escape after '\\'");
    }
    unsigned code = hex4();
    if (code >= 0xDC00 && code <= 0xDFFF) error_at(start, "a low surrogate without its high half");
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (!word("\\u")) error_at(start, "a high surrogate without its low half");
      const unsigned low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) error_at(start, "a high surrogate without its low half");
      code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
    }
    append_utf8(out, code);
  }

  std::string string() {
    const std::size_t start = pos_;
    ++pos_;
    std::string out;
    while (true) {
      const std::size_t run = pos_;
      while (!at_end() && text_[pos_] != '"' && text_[pos_] != '\\') {
        const auto c = static_cast<unsigned char>(text_[pos_]);
        if (c < 0x20) error(cat("a control character (byte ", int{c}, ") inside a string"));
        const Decoded d = decode_utf8(text_, pos_);
        if (d.code == kInvalidCode) error(cat("invalid UTF-8 (byte ", int{c}, ")"));
        pos_ += d.length;
      }
      out.append(text_, run, pos_ - run);
      if (at_end()) error_at(start, "a string without its closing quote");
      const char c = text_[pos_++];
      if (c == '"') return out;
      escape(out);
    }
  }

  bool digits() {
    const std::size_t start = pos_;
    while (peek() >= '0' && peek() <= '9') ++pos_;
    return pos_ > start;
  }

  Value number() {
    const std::size_t start = pos_;
    bool integer = true;
    if (peek() == '-') ++pos_;
    if (peek() == 'I') error_at(start, "NaN and Infinity are not JSON numbers");
    const bool leading_zero = peek() == '0';
    const std::size_t first_digit = pos_;
    if (!digits()) error(cat("expected a digit, found ", found()));
    if (leading_zero && pos_ - first_digit > 1) error_at(start, "a number with a leading zero");
    if (peek() == '.') {
      integer = false;
      ++pos_;
      if (!digits()) error(cat("expected a digit after '.', found ", found()));
    }
    if (peek() == 'e' || peek() == 'E') {
      integer = false;
      ++pos_;
      if (peek() == '+' || peek() == '-') ++pos_;
      if (!digits()) error(cat("expected a digit in the exponent, found ", found()));
    }
    const char* first = text_.data() + start;
    const char* last = text_.data() + pos_;
    if (integer) {
      std::int64_t i = 0;
      if (std::from_chars(first, last, i).ec == std::errc()) return Value(i);
    }
    double d = 0;
    if (std::from_chars(first, last, d).ec == std::errc::result_out_of_range) {
      d = std::strtod(std::string(first, last).c_str(), nullptr);  // tells tiny from huge
      if (d > 1 || d < -1) error_at(start, "a number beyond the range of double");
    }
    return Value(d);
  }

  std::string_view text_;
  std::string_view where_;
  std::size_t pos_ = 0;
};

}  // namespace

Value parse_json(std::string_view text, std::string_view where) {
  return Parser(text, where).document();
}

Value read_json_file(const std::string& path) {
  return parse_json(read_file(path), path);
}

}  // namespace glmtune::io
