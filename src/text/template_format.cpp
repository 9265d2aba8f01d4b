// Python's two older kinds of string formatting: the % operator and str.format.
#include "text/template_format.h"

#include <cmath>

#include "base/cat.h"
#include "text/template_runtime.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

// One conversion of the % operator; its width and precision are in the spec.
struct Conversion {
  FormatSpec spec;
  bool left = false, zeros = false;
};

std::int64_t whole_number(const Conversion& c, const Val& v) {
  const char type = c.spec.type;
  if (v.is(Kind::kUndefined)) undefined_error(v);
  if (!v.is_number()) {
    raise("TypeError", cat("%", type, " format: a real number is required, not ", type_name(v)));
  }
  if (!v.is(Kind::kFloat)) return as_int(v, "format");
  if (type != 'd') raise("TypeError", cat("%", type, " format: an integer is required, not float"));
  if (std::isnan(v.number)) raise("ValueError", "cannot convert float NaN to integer");
  if (std::fabs(v.number) >= 9.2e18) raise("OverflowError", "an integer of more than 64 bits");
  return static_cast<std::int64_t>(v.number);
}

std::string converted_number(const Conversion& c, const Val& v) {
  FormatSpec spec = c.spec;
  spec.align = c.left ? '<' : '>';
  if (c.zeros && !c.left) {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  if (std::string_view("doxX").find(spec.type) == std::string_view::npos) {
    if (v.is(Kind::kUndefined)) undefined_error(v);
    if (!v.is_number()) raise("TypeError", cat("must be real number, not ", type_name(v)));
    return format_double(as_double(v), spec);
  }
  spec.digits = std::exchange(spec.precision, -1);
  return format_integer(whole_number(c, v), spec);
}

void append_converted(Heap& heap, TextBuilder& out, const Conversion& c, const Val& v) {
  const char type = c.spec.type;
  if (std::string_view("srac").find(type) == std::string_view::npos) {
    if (std::string_view("doxXeEfFgG").find(type) == std::string_view::npos) {
      raise("ValueError", cat("unsupported format character '", type, "'"));
    }
    out.append(converted_number(c, v), whole_source(heap, v));
    return;
  }
  FormatSpec spec = c.spec;
  spec.align = c.left ? '<' : '>';
  Val text;
  if (type == 's') {
    text = to_string(heap, v);
  } else if (type == 'c') {
    spec.precision = -1;
    if (v.is(Kind::kString) ? length(v) != 1 : !v.is(Kind::kInt) && !v.is(Kind::kBool)) {
      raise("TypeError", cat("%c requires int or char, not ", type_name(v)));
    }
    text = v.is(Kind::kString) ? v : plain_string(&heap, character(as_int(v, "%c")), v.source);
  } else {
    const std::string printed = repr(heap, v);
    text = plain_string(&heap, type == 'a' ? ascii(printed) : printed, whole_source(heap, v));
  }
  append_padded(heap, out, text, spec);
}

// s % args
class PercentFormat {
 public:
  PercentFormat(Heap& heap, const Val& format, const Val& args)
      : heap_(heap),
        format_(format),
        f_(format.string().text),
        args_(args),
        several_(args.is(Kind::kTuple)),
        out_(heap) {}

  Val run() {
    while (at_ < f_.size()) {
      heap_.step();
      const std::size_t percent = std::min(f_.find('%', at_), f_.size());
      out_.append(format_, at_, percent);
      at_ = percent + 1;
      if (percent < f_.size()) conversion();
    }
    // Python takes a list for a mapping here, which need not be used up; Jinja's undefined too.
    const bool mapping =
        args_.is(Kind::kDict) || args_.is(Kind::kList) || args_.is(Kind::kUndefined);
    if (!named_ && !mapping && next_ < count()) {
      raise("TypeError", "not all arguments converted during string formatting");
    }
    return out_.take();
  }

 private:
  std::size_t count() const { return several_ ? args_.list().items.size() : 1; }

  const Val& argument() {
    // Behind a named field there is nothing left.
    if (named_ || next_ >= count()) raise("TypeError", "not enough arguments for format string");
    ++next_;
    return several_ ? args_.list().items[next_ - 1] : args_;
  }

  const Val* named_argument() {
    if (at_ >= f_.size() || f_[at_] != '(') return nullptr;
    if (args_.is(Kind::kUndefined)) undefined_error(args_);
    if (!args_.is(Kind::kDict)) raise("TypeError", "format requires a mapping");
    const std::size_t begin = ++at_;
    for (int open = 1; open > 0; ++at_) {
      if (at_ >= f_.size()) raise("ValueError", "incomplete format key");
      open += f_[at_] == '(' ? 1 : f_[at_] == ')' ? -1 : 0;
    }
    named_ = true;
    const std::string key = f_.substr(begin, at_ - 1 - begin);
    const Val* value = args_.dict().find(key);
    if (value == nullptr) raise("KeyError", key);
    return value;
  }

  std::int64_t number(bool& negative) {
    std::int64_t n = 0;
    if (at_ < f_.size() && f_[at_] == '*') {
      ++at_;
      const Val& v = argument();
      if (!v.is(Kind::kInt) && !v.is(Kind::kBool)) raise("TypeError", "* wants int");
      n = as_int(v, "*");
      negative = n < 0;
      if (n < -kMaxFormatWidth) n = kMaxFormatWidth + 1;
      n = n < 0 ? -n : n;
    }
    for (; at_ < f_.size() && f_[at_] >= '0' && f_[at_] <= '9' && n <= kMaxFormatWidth; ++at_) {
      n = n * 10 + (f_[at_] - '0');
    }
    if (n > kMaxFormatWidth) {
      raise("ValueError", cat("a format of more than ", kMaxFormatWidth, " characters"));
    }
    return n;
  }

  void conversion() {
    if (at_ < f_.size() && f_[at_] == '%') {
      out_.append(format_, at_, at_ + 1);
      ++at_;
      return;
    }
    const Val* value = named_argument();
    Conversion c;
    c.spec.align = '>';
    for (; at_ < f_.size() && std::string_view("-+ #0").find(f_[at_]) != std::string_view::npos;
         ++at_) {
      const char flag = f_[at_];
      c.left |= flag == '-';
      c.zeros |= flag == '0';
      c.spec.alternate |= flag == '#';
      if (flag == '+' || (flag == ' ' && c.spec.sign == 0)) c.spec.sign = flag;
    }
    bool negative = false;
    c.spec.width = number(negative);
    c.left |= negative;
    if (at_ < f_.size() && f_[at_] == '.') {
      ++at_;
      negative = false;
      c.spec.precision = number(negative);
      if (negative) c.spec.precision = 0;
    }
    if (at_ < f_.size() && std::string_view("hlL").find(f_[at_]) != std::string_view::npos) ++at_;
    if (at_ >= f_.size()) raise("ValueError", "incomplete format");
    c.spec.type = f_[at_++];
    if (c.spec.type == 'i' || c.spec.type == 'u') c.spec.type = 'd';
    append_converted(heap_, out_, c, value != nullptr ? *value : argument());
  }

  Heap& heap_;
  const Val& format_;
  const std::string& f_;
  const Val& args_;
  bool several_;
  TextBuilder out_;
  std::size_t at_ = 0, next_ = 0;
  bool named_ = false;
};

// str.format
class BraceFormat {
 public:
  BraceFormat(Heap& heap, const std::vector<Val>& positional,
              const std::vector<std::pair<std::string, Val>>& named)
      : heap_(heap), positional_(positional), named_(named) {}

  // The text from `at` to `end`; specifications hold fields to this depth.
  void run(TextBuilder& out, const Val& format, std::size_t at, std::size_t end, int depth) {
    if (depth < 0) raise("ValueError", "Max string recursion exceeded");
    const std::string& f = format.string().text;
    while (at < end) {
      heap_.step();
      const std::size_t brace = std::min(f.find_first_of("{}", at), end);
      out.append(format, at, brace);
      if (brace == end) break;
      at = brace + 1;
      if (at < end && f[at] == f[brace]) {
        out.append(format, at, at + 1);
        ++at;
        continue;
      }
      if (f[brace] == '}') raise("ValueError", "Single '}' encountered in format string");
      at = field(out, format, at, end, depth);
    }
  }

 private:
  // A replacement field that begins at `at`; returns what comes after it.
  std::size_t field(TextBuilder& out, const Val& format, std::size_t at, std::size_t end,
                    int depth) {
    const std::string& f = format.string().text;
    std::size_t close = at;
    for (int open = 1;; ++close) {
      if (close >= end) raise("ValueError", "expected '}' before end of string");
      open += f[close] == '{' ? 1 : f[close] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    std::size_t name_end = at;
    for (bool inside = false; name_end < close; ++name_end) {
      const char c = f[name_end];
      if (c == '{') raise("ValueError", "unexpected '{' in field name");
      if (c == '[') inside = true;
      if (c == ']') inside = false;
      if (!inside && (c == ':' || c == '!')) break;
    }
    std::size_t spec = name_end;
    char conversion = 0;
    if (spec < close && f[spec] == '!') {
      if (spec + 1 >= close) raise("ValueError", "unmatched '{' in format spec");
      conversion = f[spec + 1];
      spec += 2;
      if (spec < close && f[spec] != ':')
        raise("ValueError", "expected ':' after conversion specifier");
    }
    Val value = look_up(f.substr(at, name_end - at));
    if (conversion == 's') {
      value = to_string(heap_, value);
    } else if (conversion == 'r' || conversion == 'a') {
      const std::string printed = repr(heap_, value);
      value = plain_string(&heap_, conversion == 'a' ? ascii(printed) : printed,
                           whole_source(heap_, value));
    } else if (conversion != 0) {
      raise("ValueError", cat("Unknown conversion specifier '", conversion, "'"));
    }
    TextBuilder expanded(heap_);
    run(expanded, format, std::min(spec + 1, close), close, depth - 1);
    append_formatted(heap_, out, value, expanded.text());
    return close + 1;
  }

  Val look_up(std::string name) {
    const auto is_number = [](std::string_view s) {
      return !s.empty() && s.find_first_not_of("0123456789") == std::string_view::npos;
    };
    if (name.empty()) {
      if (numbered_) raise("ValueError", "cannot switch from manual to automatic numbering");
      name = std::to_string(next_++);
    } else if (is_number(name)) {
      if (next_ > 0) raise("ValueError", "cannot switch from automatic to manual numbering");
      numbered_ = true;
    }
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    Val value = argument(name.substr(0, at), is_number(name.substr(0, at)));
    while (at < name.size()) {
      const bool bracket = name[at] == '[';
      if (!bracket && name[at] != '.')
        raise("ValueError", "Only '.' or '[' may follow ']' in a format field specifier");
      ++at;
      const std::size_t end =
          bracket ? name.find(']', at) : std::min(name.find_first_of(".[", at), name.size());
      if (end == std::string::npos) raise("ValueError", "Missing ']' in format string");
      const std::string key = name.substr(at, end - at);
      if (key.empty()) raise("ValueError", "Empty attribute in format string");
      value = !bracket ? attribute(heap_, value, key)
                       : item(heap_, value,
                              is_number(key) && key.size() < 18 ? integer(std::stoll(key))
                                                                : plain_string(&heap_, key));
      at = end + (bracket ? 1 : 0);
    }
    return value;
  }

  const Val& argument(const std::string& name, bool is_number) const {
    if (is_number) {
      const std::size_t i = name.size() < 9 ? std::stoul(name) : positional_.size();
      if (i >= positional_.size()) {
        raise("IndexError", "Replacement index out of range for positional args tuple");
      }
      return positional_[i];
    }
    for (const auto& [key, value] : named_) {
      if (key == name) return value;
    }
    raise("KeyError", name);
  }

  Heap& heap_;
  const std::vector<Val>& positional_;
  const std::vector<std::pair<std::string, Val>>& named_;
  std::size_t next_ = 0;   // of the fields without a name
  bool numbered_ = false;  // a field with a number was seen
};

}  // namespace

Val format_percent(Heap& heap, const Val& format, const Val& args) {
  return PercentFormat(heap, format, args).run();
}

Val format_braces(Heap& heap, const Val& format, const std::vector<Val>& positional,
                  const std::vector<std::pair<std::string, Val>>& named) {
  TextBuilder out(heap);
  BraceFormat(heap, positional, named).run(out, format, 0, format.string().text.size(), 2);
  return out.take();
}

}  // namespace glmtune::text::jinja
