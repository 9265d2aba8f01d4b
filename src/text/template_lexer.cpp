#include "text/template_lexer.h"

#include <algorithm>
#include <array>

#include "base/cat.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name(char c) {
  return is_name_start(c) || is_digit(c);
}

// Line ends become \n and the last one is dropped, as Jinja does it.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      out += '\n';
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), s_(source_) {}

  std::vector<Token> run() {
    while (pos_ < s_.size()) root();
    add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }
  [[noreturn]] void bad(const std::string& what) const { throw SyntaxError{line_, what}; }

  void advance_to(std::size_t to) {
    line_ += static_cast<int>(std::count(s_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                         s_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    if (to > pos_) line_starting_ = s_[to - 1] == '\n';
    pos_ = to;
  }

  bool starts(std::size_t at, std::string_view with) const {
    return s_.substr(std::min(at, s_.size()), with.size()) == with;
  }
  std::size_t after_space(std::size_t at) const {
    while (at < s_.size()) {
      const Decoded d = decode_utf8(s_, at);
      if (!is_python_space(d.code)) break;
      at += d.length;
    }
    return at;
  }

  // Text up to the next tag, and what opens it.
  void root() {
    std::size_t at = pos_;
    for (;; ++at) {
      at = s_.find('{', at);
      if (at == std::string_view::npos || at + 1 >= s_.size()) {
        add(Token::Kind::kData, std::string(s_.substr(pos_)));
        advance_to(s_.size());
        return;
      }
      if (s_[at + 1] == '%' || s_[at + 1] == '{' || s_[at + 1] == '#') break;
    }
    const char sort = s_[at + 1];
    const std::size_t raw = sort == '%' ? raw_begin(at) : 0;
    const char sign = at + 2 < s_.size() ? s_[at + 2] : ' ';
    data(at, sign, sort == '{');
    if (raw != 0) {
      advance_to(raw);
      raw_text();
      return;
    }
    const std::size_t after = at + (sign == '-' || sign == '+' ? 3 : 2);
    if (sort == '#') {
      advance_to(after);
      comment();
      return;
    }
    add(sort == '%' ? Token::Kind::kBlockBegin : Token::Kind::kVariableBegin, "");
    advance_to(after);
    code(sort == '%');
  }

  // Template text up to a tag, stripped as the tag's sign and lstrip_blocks ask.
  void data(std::size_t end, char sign, bool variable) {
    std::string_view text = s_.substr(pos_, end - pos_);
    if (sign == '-') {
      while (!text.empty()) {
        std::size_t last = text.size() - 1;
        while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0U) == 0x80) --last;
        if (!is_python_space(decode_utf8(text, last).code)) break;
        text.remove_suffix(text.size() - last);
      }
    } else if (sign != '+' && !variable) {
      const std::size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
      if ((line > 0 || line_starting_) && after_space(pos_ + line) >= end) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) add(Token::Kind::kData, std::string(text));
    advance_to(end);
  }

  // Behind "{% raw %}" where it stands at `at`, else 0.
  std::size_t raw_begin(std::size_t at) const {
    std::size_t i = at + 2;
    if (starts(i, "-") || starts(i, "+")) ++i;
    i = after_space(i);
    if (!starts(i, "raw")) return 0;
    i = after_space(i + 3);
    if (starts(i, "-%}")) return after_space(i + 3);
    return starts(i, "%}") ? i + 2 : 0;
  }

  void raw_text() {
    for (std::size_t at = s_.find("{%", pos_); at != std::string_view::npos;
         at = s_.find("{%", at + 1)) {
      std::size_t i = at + 2;
      const char sign = i < s_.size() ? s_[i] : ' ';
      if (sign == '-' || sign == '+') ++i;
      i = after_space(i);
      if (!starts(i, "endraw")) continue;
      const std::size_t end = after_space(i + 6);
      if (!starts(end, "%}") && !starts(end, "-%}") && !starts(end, "+%}")) continue;
      data(at, sign, false);
      advance_to(end);
      close_block();
      return;
    }
    bad("Missing end of raw directive");
  }

  void comment() {
    const std::size_t at = s_.find("#}", pos_);
    if (at == std::string_view::npos) bad("Missing end of comment tag");
    const char sign = at > pos_ ? s_[at - 1] : ' ';
    std::size_t end = at + 2;
    if (sign == '-') {
      end = after_space(end);
    } else if (sign != '+' && starts(end, "\n")) {
      ++end;
    }
    advance_to(end);
  }

  // pos_ stands at "%}", "-%}" or "+%}".
  void close_block() {
    if (starts(pos_, "-%}")) {
      advance_to(after_space(pos_ + 3));
    } else if (starts(pos_, "+%}")) {
      advance_to(pos_ + 3);
    } else {
      advance_to(pos_ + (starts(pos_, "%}\n") ? 3 : 2));
    }
  }

  void code(bool block) {
    std::string open;  // brackets not yet closed
    const int first_line = line_;
    for (;;) {
      while (pos_ < s_.size() && is_space(s_[pos_])) advance_to(pos_ + 1);
      if (pos_ >= s_.size()) {
        line_ = first_line;
        bad(block ? "unexpected end of template inside {% ... %}"
                  : "unexpected end of template inside {{ ... }}");
      }
      if (open.empty() && block &&
          (starts(pos_, "%}") || starts(pos_, "-%}") || starts(pos_, "+%}"))) {
        add(Token::Kind::kBlockEnd, "");
        close_block();
        return;
      }
      if (open.empty() && !block && (starts(pos_, "}}") || starts(pos_, "-}}"))) {
        add(Token::Kind::kVariableEnd, "");
        advance_to(starts(pos_, "-") ? after_space(pos_ + 3) : pos_ + 2);
        return;
      }
      token(open);
    }
  }

  void token(std::string& open) {
    const char c = s_[pos_];
    if (is_digit(c)) return number();
    if (is_name_start(c)) {
      std::size_t end = pos_;
      while (end < s_.size() && is_name(s_[end])) ++end;
      add(Token::Kind::kName, std::string(s_.substr(pos_, end - pos_)));
      advance_to(end);
      return;
    }
    if (c == '\'' || c == '"') return string(c);
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view op : kOperators) {
      if (!starts(pos_, op)) continue;
      if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
      if (c == ')' || c == ']' || c == '}') {
        if (open.empty()) bad(cat("unexpected '", c, "'"));
        if (open.back() != c) bad(cat("unexpected '", c, "', expected '", open.back(), "'"));
        open.pop_back();
      }
      add(Token::Kind::kOperator, std::string(op));
      advance_to(pos_ + op.size());
      return;
    }
    bad(cat("unexpected character '", s_.substr(pos_, decode_utf8(s_, pos_).length), "'"));
  }

  std::size_t digits(std::size_t i, std::string_view allowed, std::string& out) const {
    while (i < s_.size() && (allowed.find(s_[i]) != std::string_view::npos ||
                             (s_[i] == '_' && !out.empty() && i + 1 < s_.size() &&
                              allowed.find(s_[i + 1]) != std::string_view::npos))) {
      if (s_[i] != '_') out += s_[i];
      ++i;
    }
    return i;
  }

  void number() {
    constexpr std::string_view kDecimal = "0123456789";
    std::string text;
    if (s_[pos_] == '0' && pos_ + 1 < s_.size() &&
        std::string_view("xXoObB").find(s_[pos_ + 1]) != std::string_view::npos) {
      const char base = static_cast<char>(s_[pos_ + 1] | 0x20);
      text = base == 'x' ? "0x" : base == 'o' ? "0o" : "0b";
      const std::size_t end = digits(pos_ + 2,
                                     base == 'x'   ? std::string_view("0123456789abcdefABCDEF")
                                     : base == 'o' ? std::string_view("01234567")
                                                   : std::string_view("01"),
                                     text);
      if (text.size() == 2) bad("a number without digits");
      add(Token::Kind::kInteger, text);
      advance_to(end);
      return;
    }
    std::size_t end = digits(pos_, kDecimal, text);
    bool real = false;
    // "x.0.1" is an attribute of an attribute, not a real number.
    const bool after_dot = pos_ > 0 && s_[pos_ - 1] == '.';
    if (!after_dot && end + 1 < s_.size() && s_[end] == '.' && is_digit(s_[end + 1])) {
      std::string fraction;
      end = digits(end + 1, kDecimal, fraction);
      text.append(1, '.').append(fraction);
      real = true;
    }
    if (!after_dot && end < s_.size() && (s_[end] == 'e' || s_[end] == 'E')) {
      std::size_t i = end + 1;
      std::string exponent = "e";
      if (i < s_.size() && (s_[i] == '+' || s_[i] == '-')) exponent += s_[i++];
      if (i < s_.size() && is_digit(s_[i])) {
        end = digits(i, kDecimal, exponent);
        text += exponent;
        real = true;
      }
    }
    add(real ? Token::Kind::kFloat : Token::Kind::kInteger, text);
    advance_to(end);
  }

  void string(char quote) {
    std::string out;
    std::size_t i = pos_ + 1;
    while (i < s_.size() && s_[i] != quote) {
      if (s_[i] != '\\') {
        out += s_[i++];
        continue;
      }
      if (++i >= s_.size()) break;
      i = escape(i, out);
    }
    if (i >= s_.size()) bad("a string that does not end");
    add(Token::Kind::kString, std::move(out));
    advance_to(i + 1);
  }

  char32_t hex(std::size_t at, std::size_t n) const {
    char32_t code = 0;
    for (std::size_t i = at; i < at + n; ++i) {
      const char c = i < s_.size() ? s_[i] : ' ';
      const char low = static_cast<char>(c | 0x20);
      if (!is_digit(c) && (low < 'a' || low > 'f')) bad("a truncated escape in a string");
      code = code << 4U | static_cast<char32_t>(is_digit(c) ? c - '0' : low - 'a' + 10);
    }
    return code;
  }

  // Python's escapes; s_[i] is the character after the backslash. Returns behind it.
  std::size_t escape(std::size_t i, std::string& out) const {
    constexpr std::string_view kFrom = "\\'\"abfnrtv";
    constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    const char c = s_[i];
    if (const std::size_t at = kFrom.find(c); at != std::string_view::npos) {
      out += kTo[at];
      return i + 1;
    }
    if (c == '\n') return i + 1;
    if (c >= '0' && c <= '7') {
      char32_t code = 0;
      std::size_t end = i;
      while (end < s_.size() && end < i + 3 && s_[end] >= '0' && s_[end] <= '7') {
        code = code * 8 + static_cast<char32_t>(s_[end++] - '0');
      }
      append_utf8(out, code);
      return end;
    }
    const std::size_t n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N') bad("\\N{...} in a string is not supported");
    if (n == 0) {  // not an escape: the backslash stays
      out += '\\';
      out += c;
      return i + 1;
    }
    const char32_t code = hex(i + 1, n);
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      bad("an escape in a string names no character");
    }
    append_utf8(out, code);
    return i + 1 + n;
  }

  std::string source_;
  std::string_view s_;
  std::size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace glmtune::text::jinja
