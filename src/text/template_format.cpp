// Python's two older kinds of string formatting, as far as templates use them.
#include <cstdio>

#include "base/cat.h"
#include "text/template_string.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

struct Conversion {
  std::string flags;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = 's';
};

constexpr std::int64_t kMaxWidth = 10'000;

std::string converted_number(const Conversion& c, const Val& v) {
  std::string format = "%" + c.flags + "*";
  char small[512];
  if (c.type == 'd' || c.type == 'i' || c.type == 'u' || c.type == 'x' || c.type == 'X' ||
      c.type == 'o') {
    if (!v.is_number()) raise("TypeError", cat("%", c.type, " format: a real number is required"));
    const long long i = v.is(Kind::kFloat) ? static_cast<long long>(v.number) : as_int(v, "format");
    format += std::string(".*ll") + (c.type == 'i' || c.type == 'u' ? 'd' : c.type);
    std::snprintf(small, sizeof small, format.c_str(),
                  static_cast<int>(std::min<std::int64_t>(c.width, 400)),
                  static_cast<int>(std::min<std::int64_t>(c.precision, 400)), i);
    return small;
  }
  if (!v.is_number()) raise("TypeError", "must be real number");
  format += std::string(".*") + c.type;
  std::string out(2048, '\0');
  const int n =
      std::snprintf(out.data(), out.size(), format.c_str(),
                    static_cast<int>(std::min<std::int64_t>(c.width, 400)),
                    static_cast<int>(std::min<std::int64_t>(c.precision, 400)), as_double(v));
  out.resize(static_cast<std::size_t>(n));
  return out;
}

void append_converted(Heap& heap, TextBuilder& out, const Conversion& c, const Val& v) {
  if (c.type != 's' && c.type != 'r' && c.type != 'a') {
    if (std::string_view("diuxXoeEfFgG").find(c.type) == std::string_view::npos) {
      raise("ValueError", cat("unsupported format character '", c.type, "'"));
    }
    out.append(converted_number(c, v), whole_source(heap, v));
    return;
  }
  Val text = c.type == 's' ? to_string(heap, v)
                           : plain_string(&heap, repr(heap, v), whole_source(heap, v));
  if (c.precision >= 0) {
    std::size_t end = 0;
    const std::string& s = text.string().text;
    for (std::int64_t i = 0; i < c.precision && end < s.size(); ++i) {
      end += decode_utf8(s, end).length;
    }
    text = substring(heap, text, 0, end);
  }
  const auto size = static_cast<std::int64_t>(length(text));
  const std::string pad(static_cast<std::size_t>(std::max<std::int64_t>(0, c.width - size)), ' ');
  const bool left = c.flags.find('-') != std::string::npos;
  if (!left) out.append(pad, {});
  out.append(text);
  if (left) out.append(pad, {});
}

}  // namespace

Val format_percent(Heap& heap, const Val& format, const Val& args) {
  const std::string& f = format.string().text;
  TextBuilder out(heap);
  std::size_t next = 0;
  const bool several = args.is(Kind::kTuple);
  const auto argument = [&]() -> const Val& {
    const std::size_t have = several ? args.list().items.size() : 1;
    if (next >= have) raise("TypeError", "not enough arguments for format string");
    ++next;
    return several ? args.list().items[next - 1] : args;
  };
  bool named = false;
  for (std::size_t i = 0; i < f.size();) {
    heap.step();
    const std::size_t percent = std::min(f.find('%', i), f.size());
    out.append(format, i, percent);
    i = percent;
    if (i == f.size()) break;
    ++i;
    Conversion c;
    const Val* value = nullptr;
    if (i < f.size() && f[i] == '(') {
      const std::size_t close = f.find(')', i);
      if (close == std::string::npos) raise("ValueError", "incomplete format key");
      if (!args.is(Kind::kDict)) raise("TypeError", "format requires a mapping");
      value = args.dict().find(std::string_view(f).substr(i + 1, close - i - 1));
      if (value == nullptr) raise("KeyError", f.substr(i + 1, close - i - 1));
      named = true;
      i = close + 1;
    }
    while (i < f.size() && std::string_view("-+ #0").find(f[i]) != std::string_view::npos) {
      if (c.flags.find(f[i]) == std::string::npos) c.flags += f[i];
      ++i;
    }
    const auto digits = [&](std::int64_t& n) {
      for (n = 0; i < f.size() && f[i] >= '0' && f[i] <= '9'; ++i) {
        n = std::min(n * 10 + (f[i] - '0'), kMaxWidth);
      }
    };
    digits(c.width);
    if (i < f.size() && f[i] == '.') {
      ++i;
      digits(c.precision);
    }
    if (i >= f.size()) raise("ValueError", "incomplete format");
    c.type = f[i++];
    if (c.type == '%') {
      out.append("%", {});
      continue;
    }
    append_converted(heap, out, c, value != nullptr ? *value : argument());
  }
  // Python takes a list for a mapping here, which need not be used up.
  const bool mapping = args.is(Kind::kDict) || args.is(Kind::kList);
  if (!named && !mapping && next < (several ? args.list().items.size() : 1)) {
    raise("TypeError", "not all arguments converted during string formatting");
  }
  return out.take();
}

Val format_braces(Heap& heap, const Val& format, const std::vector<Val>& positional,
                  const std::vector<std::pair<std::string, Val>>& named) {
  const std::string& f = format.string().text;
  TextBuilder out(heap);
  std::size_t next = 0;
  for (std::size_t i = 0; i < f.size();) {
    heap.step();
    const std::size_t brace = std::min(f.find_first_of("{}", i), f.size());
    out.append(format, i, brace);
    if (brace == f.size()) break;
    i = brace + 1;
    if (i < f.size() && f[i] == f[brace]) {
      out.append(format, i, i + 1);
      ++i;
      continue;
    }
    const std::size_t close = f.find('}', i);
    if (f[brace] == '}' || close == std::string::npos) {
      raise("ValueError", "single brace in a format string");
    }
    const std::string field = f.substr(i, close - i);
    i = close + 1;
    if (field.find_first_of(":!.[{") != std::string::npos) {
      raise("ValueError", cat("format field {", field, "} is not supported"));
    }
    if (field.empty() || field.find_first_not_of("0123456789") == std::string::npos) {
      const std::size_t at = field.empty() ? next++ : std::stoul(field.substr(0, 6));
      if (at >= positional.size()) raise("IndexError", "not enough arguments for a format string");
      out.append_text(positional[at]);
      continue;
    }
    const Val* value = nullptr;
    for (const auto& [name, v] : named) {
      if (name == field) value = &v;
    }
    if (value == nullptr) raise("KeyError", field);
    out.append_text(*value);
  }
  return out.take();
}

}  // namespace glmtune::text::jinja
