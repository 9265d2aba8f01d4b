// Filters (`x | ...`) of single values; those that go over a sequence are in
// template_sequence_filters.cpp, those that rewrite texts in template_text_filters.cpp.
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/cat.h"
#include "text/template_filter.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

const Val& text_of(const Val& v) {
  if (v.is(Kind::kUndefined)) undefined_error(v);
  return v;
}

Val tojson(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ensure_ascii = p.flag(0, false);
  if (const Val* indent = p.given(1)) {
    options.indented = true;
    options.item_separator.assign(1, ',');
    if (indent->is(Kind::kString)) {
      options.indent = indent->string().text;
    } else {
      const std::int64_t n = as_int(*indent, "tojson(indent)");
      if (n > 1000) raise("ValueError", "tojson(indent) is too large");
      options.indent.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, n)), ' ');
    }
  }
  if (const Val* separators = p.given(2)) {
    const auto both = elements(rt.heap, *separators);
    if (both->items.size() != 2 || !both->items[0].is(Kind::kString) ||
        !both->items[1].is(Kind::kString)) {
      raise("ValueError", "tojson(separators) must be two strings");
    }
    options.item_separator = both->items[0].string().text;
    options.key_separator = both->items[1].string().text;
  }
  options.sort_keys = p.flag(3, false);
  return plain_string(&rt.heap, dump_json(rt.heap, v, options), whole_source(rt.heap, v));
}

Val default_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "default", {"default_value", "boolean"});
  const bool replace = v.is(Kind::kUndefined) || (p.flag(1, false) && !truth(v));
  if (!replace) return v;
  return p[0] != nullptr ? *p[0] : plain_string(&rt.heap, "");
}

Val length_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "length", {});
  rt.heap.step(v.is(Kind::kString) ? v.string().text.size() / 64 : 0);
  return integer(static_cast<std::int64_t>(length(v)));
}

Val string_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "string", {});
  return to_string(rt.heap, v);
}

template <Case kCase>
Val case_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "case", {});
  return change_case(rt.heap, to_string(rt.heap, v), kCase);
}

// Jinja's title is not str.title: words begin after white space and - ( { [ <.
Val title_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "title", {});
  const Val all = to_string(rt.heap, v);
  const std::string& text = all.string().text;
  TextBuilder out(rt.heap);
  bool first = true;
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    const Val one = substring(rt.heap, all, i, i + d.length);
    out.append(change_case(rt.heap, one, first ? Case::kUpper : Case::kLower));
    first = is_python_space(d.code) || d.code == '-' || d.code == '(' || d.code == '{' ||
            d.code == '[' || d.code == '<';
    i += d.length;
  }
  return out.take();
}

Val trim(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "trim", {"chars"});
  return strip(rt.heap, to_string(rt.heap, v), p.optional_string(0), true, true);
}

Val replace_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "replace", {"old", "new", "count"});
  return replace(rt.heap, to_string(rt.heap, v), to_string(rt.heap, p.required(0)),
                 to_string(rt.heap, p.required(1)), p.integer(2, -1));
}

Val indent(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "indent", {"width", "first", "blank"});
  const bool text_width = p[0] != nullptr && p[0]->is(Kind::kString);
  const Val by = text_width ? *p[0] : repeat(rt.heap, plain_string(&rt.heap, " "), p.integer(0, 4));
  if (!text_of(v).is(Kind::kString)) {
    raise("TypeError", cat("indent needs a string, found ", type_name(v)));
  }
  const Val& all = v;
  const auto lines = split_lines(rt.heap, all, false);
  const std::string& text = all.string().text;
  TextBuilder out(rt.heap);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n", {});
    const bool blank = lines[i].string().text.empty();
    if (i == 0 ? p.flag(1, false) : !blank || p.flag(2, false)) out.append(by);
    out.append(lines[i]);
  }
  // Jinja adds a line end before it splits, so that one at the end of the text stays.
  if (!text.empty() && text.back() == '\n') out.append("\n", {});
  return out.take();
}

Val truncate(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "truncate", {"length", "killwords", "end", "leeway"});
  Val text = to_string(rt.heap, text_of(v));
  const Val end = p[2] != nullptr ? p.string(2) : plain_string(&rt.heap, "...");
  const std::int64_t limit = p.integer(0, 255);
  const std::int64_t leeway = p.integer(3, 5);
  const auto end_length = static_cast<std::int64_t>(length(end));
  if (limit < end_length) raise("AssertionError", "truncate: the length is below that of the end");
  if (static_cast<std::int64_t>(length(text)) <= limit + leeway) return text;
  const Val stop = integer(limit - end_length);
  Val cut = slice(rt.heap, text, nullptr, &stop, nullptr);
  if (!p.flag(1, false)) {
    const std::size_t space = cut.string().text.rfind(' ');
    if (space != std::string::npos) cut = substring(rt.heap, cut, 0, space);
  }
  return concat(rt.heap, cut, end);
}

Val center(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "center", {"width"});
  return string_method(rt.heap, to_string(rt.heap, v), "center", {{integer(p.integer(0, 80))}, {}});
}

Val escape(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "escape", {});
  Val text = to_string(rt.heap, v);
  constexpr std::pair<const char*, const char*> kEscapes[] = {
      {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  for (const auto& [from, to] : kEscapes) {
    text = replace(rt.heap, text, plain_string(&rt.heap, from), plain_string(&rt.heap, to), -1);
  }
  return text;
}

Val format_filter(Runtime& rt, const Val& v, const Args& args) {
  const Val format = to_string(rt.heap, v);
  if (!args.named.empty() && !args.positional.empty()) {
    raise("FilterArgumentError", "can't handle positional and keyword arguments at the same time");
  }
  if (args.named.empty()) {
    return format_percent(rt.heap, format, list(rt.heap, args.positional, Kind::kTuple));
  }
  DictObject::Items items;
  for (const auto& [name, value] : args.named) {
    items.emplace_back(plain_string(&rt.heap, name), value);
  }
  return format_percent(rt.heap, format, dict(rt.heap, std::move(items)));
}

Val word_count(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "wordcount", {});
  const Val all = to_string(rt.heap, v);
  const std::string& text = all.string().text;
  std::int64_t n = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    const auto c = static_cast<CharClass>(char_classes()[d.code]);
    const bool word = c == kLetter || c == kNumber || d.code == '_';
    n += word && !inside ? 1 : 0;
    inside = word;
    i += d.length;
  }
  return integer(n);
}

// The digits without the single underscores that Python allows between them; nothing where there
// are others.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() ||
               !std::isalnum(static_cast<unsigned char>(text[i - 1])) ||
               !std::isalnum(static_cast<unsigned char>(text[i + 1]))) {
      return std::nullopt;
    }
  }
  return out;
}

// int(text, base); false where Python raises a ValueError.
bool read_int(const std::string& text, int base, std::int64_t& out) {
  std::size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const bool negative = at == 1 && text[0] == '-';
  const std::string_view prefix = std::string_view(text).substr(at, 2);
  const auto prefixed = [&](char letter) {
    return prefix.size() == 2 && prefix[0] == '0' && (prefix[1] | 0x20) == letter;
  };
  const int told = prefixed('x') ? 16 : prefixed('o') ? 8 : prefixed('b') ? 2 : 0;
  if (told != 0 && (base == 0 || base == told)) {
    base = told;
    at += 2;
    if (at < text.size() && text[at] == '_') ++at;
  }
  const auto digits = without_underscores(std::string_view(text).substr(at));
  if (!digits || digits->empty()) return false;
  // A plain number that begins with 0 has no base.
  if (base == 0 && (*digits)[0] == '0' && digits->find_first_not_of('0') != std::string::npos) {
    return false;
  }
  if (base == 0) base = 10;
  out = 0;
  bool too_large = false;
  for (const char c : *digits) {
    const int lower = c | 0x20;
    const int digit = c >= '0' && c <= '9'           ? c - '0'
                      : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10
                                                     : 36;
    if (digit >= base) return false;
    too_large |= __builtin_mul_overflow(out, base, &out) ||
                 __builtin_sub_overflow(out, digit, &out);  // below zero there is room for one more
  }
  if (too_large || (!negative && out == INT64_MIN)) {
    raise("OverflowError", "an integer of more than 64 bits");
  }
  if (!negative) out = -out;
  return true;
}

bool read_float(const std::string& given, double& out) {
  const auto text = without_underscores(given);
  if (!text || text->empty() || text->find_first_of("xXpP(") != std::string::npos) return false;
  char* end = nullptr;
  out = std::strtod(text->c_str(), &end);
  return *end == '\0';
}

std::string stripped(Runtime& rt, const Val& v) {
  return strip(rt.heap, v, nullptr, true, true).string().text;
}

Val int_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "int", {"default", "base"});
  if (v.is(Kind::kUndefined)) undefined_error(v);
  const auto base = static_cast<int>(p.integer(1, 10));
  if (base != 0 && (base < 2 || base > 36)) raise("ValueError", "int(base) must be 2 to 36");
  const auto otherwise = [&] { return p[0] != nullptr ? *p[0] : integer(0); };
  double d = 0;
  if (v.is(Kind::kString)) {
    std::int64_t i = 0;
    const std::string text = stripped(rt, v);
    if (read_int(text, base, i)) return integer(i);
    if (!read_float(text, d) || !std::isfinite(d)) return otherwise();
  } else if (v.is_number()) {
    if (!v.is(Kind::kFloat)) return integer(as_int(v, "int"));
    d = v.number;
    if (std::isnan(d)) return otherwise();
  } else {
    return otherwise();
  }
  if (std::isinf(d)) raise("OverflowError", "cannot convert float infinity to integer");
  if (std::fabs(d) >= 9.2e18) raise("OverflowError", "an integer of more than 64 bits");
  return integer(static_cast<std::int64_t>(d));
}

Val float_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "float", {"default"});
  if (v.is(Kind::kUndefined)) undefined_error(v);
  double d = 0;
  if (v.is_number()) return number(as_double(v));
  if (v.is(Kind::kString) && read_float(stripped(rt, v), d)) return number(d);
  return p[0] != nullptr ? *p[0] : number(0);
}

Val abs_filter(Runtime&, const Val& v, const Args& args) {
  Parameters p(args, "abs", {});
  if (!v.is_number()) {
    if (v.is(Kind::kUndefined)) undefined_error(v);
    raise("TypeError", cat("bad operand type for abs(): '", type_name(v), "'"));
  }
  if (v.is(Kind::kFloat)) return number(std::fabs(v.number));
  return as_int(v, "abs") < 0 ? negative(v) : integer(as_int(v, "abs"));
}

// To a power of ten; halves go to the even one.
Val rounded_integer(std::int64_t i, std::int64_t precision) {
  if (precision >= 0) return integer(i);
  if (precision < -18) return integer(0);
  std::int64_t unit = 1;
  for (; precision < 0; ++precision) unit *= 10;
  std::int64_t whole = i / unit;
  const std::int64_t rest = std::abs(i % unit);
  if (rest > unit / 2 || (rest == unit / 2 && whole % 2 != 0)) whole += i < 0 ? -1 : 1;
  if (__builtin_mul_overflow(whole, unit, &whole)) {
    raise("OverflowError", "an integer of more than 64 bits");
  }
  return integer(whole);
}

Val round_filter(Runtime&, const Val& v, const Args& args) {
  Parameters p(args, "round", {"precision", "method"});
  if (!v.is_number()) {
    if (v.is(Kind::kUndefined)) undefined_error(v);
    raise("TypeError", cat("type ", type_name(v), " doesn't define a round method"));
  }
  const std::int64_t precision = p.integer(0, 0);
  if (precision < -300 || precision > 300) raise("ValueError", "round: the precision is too large");
  const std::string method = p[1] != nullptr ? p.string(1).string().text : "common";
  const double d = as_double(v);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return number(std::ceil(d * scale) / scale);
  if (method == "floor") return number(std::floor(d * scale) / scale);
  if (method != "common") raise("FilterArgumentError", "method must be common, ceil or floor");
  if (!v.is(Kind::kFloat)) return rounded_integer(as_int(v, "round"), precision);
  if (precision <= 0) return number(std::nearbyint(d * scale) / scale);
  std::string digits(static_cast<std::size_t>(precision) + 340, '\0');
  digits.resize(static_cast<std::size_t>(
      std::snprintf(digits.data(), digits.size(), "%.*f", static_cast<int>(precision), d)));
  return number(std::strtod(digits.c_str(), nullptr));
}

Val items_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "items", {});
  std::vector<Val> out;
  if (v.is(Kind::kDict)) {
    v.dict().read_all();
    for (const auto& [key, value] : v.dict().items) {
      rt.heap.step();
      out.push_back(list(rt.heap, {key, value}, Kind::kTuple));
    }
  } else if (!v.is(Kind::kUndefined)) {
    raise("TypeError", "Can only get item pairs from a mapping.");
  }
  return list(rt.heap, std::move(out), Kind::kIterator);
}

Val attr_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "attr", {"name"});
  const std::string& name = p.string(0).string().text;
  // Attributes only, never keys.
  if (v.is(Kind::kDict) && !has_method(v, name) && !changes_its_object(v, name)) {
    return undefined(cat("'dict object' has no attribute '", name, "'"));
  }
  return attribute(rt.heap, v, name);
}

struct Named {
  std::string_view name;
  FilterFunction filter;
};
constexpr Named kFilters[] = {
    {"abs", abs_filter},
    {"attr", attr_filter},
    {"capitalize", case_filter<Case::kCapitalize>},
    {"center", center},
    {"count", length_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"e", escape},
    {"escape", escape},
    {"float", float_filter},
    {"forceescape", escape},
    {"format", format_filter},
    {"indent", indent},
    {"int", int_filter},
    {"items", items_filter},
    {"length", length_filter},
    {"lower", case_filter<Case::kLower>},
    {"replace", replace_filter},
    {"round", round_filter},
    {"safe", string_filter},
    {"string", string_filter},
    {"title", title_filter},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", case_filter<Case::kUpper>},
    {"wordcount", word_count},
};

}  // namespace

double to_double(Runtime& rt, const Val& v) {
  double d = 0;
  if (v.is(Kind::kUndefined)) undefined_error(v);
  if (v.is_number()) return as_double(v);
  if (!v.is(Kind::kString)) {
    raise("TypeError",
          cat("float() argument must be a string or a real number, not '", type_name(v), "'"));
  }
  if (!read_float(stripped(rt, v), d)) {
    raise("ValueError", cat("could not convert string to float: ", repr(rt.heap, v)));
  }
  return d;
}

namespace {

FilterFunction find_filter(std::string_view name) {
  for (const Named& f : kFilters) {
    if (f.name == name) return f.filter;
  }
  if (const FilterFunction found = sequence_filter(name)) return found;
  return text_filter(name);
}

}  // namespace

bool is_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

Val apply_filter(Runtime& rt, const std::string& name, const Val& input, const Args& args) {
  rt.heap.step();
  if (const FilterFunction filter = find_filter(name)) return filter(rt, input, args);
  if (name == "random") {
    raise("TemplateRuntimeError", "the filter 'random' would make every run's data another one");
  }
  raise("TemplateRuntimeError", cat("No filter named '", name, "'"));
}

}  // namespace glmtune::text::jinja
