// Python's str methods.
#include <algorithm>

#include "base/cat.h"
#include "text/template_runtime.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

using Method = Val (*)(Heap&, const Val&, const std::string& name, const Args&);

bool from_right(const std::string& name) {
  return name[0] == 'r';
}

// Byte positions of the arguments `start` and `end` (code points, as in slices).
struct Window {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};
std::optional<Window> window(const Val& self, const Parameters& p, std::size_t at) {
  const std::string& text = self.string().text;
  if (p.given(at) == nullptr && p.given(at + 1) == nullptr) return Window{0, text.size()};
  const auto n = static_cast<std::int64_t>(length(self));
  const auto place = [&](std::int64_t i) { return i < 0 ? std::max<std::int64_t>(0, i + n) : i; };
  const std::int64_t begin = place(p.integer(at, 0));
  const std::int64_t end = std::min(place(p.integer(at + 1, n)), n);
  if (begin > end) return std::nullopt;  // not even "" is found there
  const std::size_t first = byte_of(text, static_cast<std::size_t>(begin));
  return Window{first, first + byte_of(std::string_view(text).substr(first),
                                       static_cast<std::size_t>(end - begin))};
}

Val strip_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"chars"});
  return strip(heap, self, p.optional_string(0), name != "rstrip", name != "lstrip");
}

Val split_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"sep", "maxsplit"});
  return list(heap, split(heap, self, p.optional_string(0), p.integer(1, -1), from_right(name)));
}

Val split_lines_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"keepends"});
  return list(heap, split_lines(heap, self, p.flag(0, false)));
}

// startswith, endswith
Val affix_test(Heap&, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"prefix", "start", "end"});
  const auto at = window(self, p, 1);
  const auto matches = [&](const Val& v) {
    if (!v.is(Kind::kString)) {
      if (v.is(Kind::kUndefined)) undefined_error(v);
      raise("TypeError", cat(name, " first arg must be str or a tuple of str, not ", type_name(v)));
    }
    const std::string& s = v.string().text;
    return at && s.size() <= at->size() &&
           self.string().text.compare(name == "startswith" ? at->begin : at->end - s.size(),
                                      s.size(), s) == 0;
  };
  const Val& what = p.required(0);
  if (!what.is(Kind::kTuple)) return boolean(matches(what));
  return boolean(std::any_of(what.list().items.begin(), what.list().items.end(), matches));
}

Val replace_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"old", "new", "count"});
  return replace(heap, self, p.string(0), p.string(1), p.integer(2, -1));
}

Val join_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"iterable"});
  const auto items = elements(heap, p.required(0));
  for (const Val& v : items->items) {
    if (!v.is(Kind::kString)) {
      raise("TypeError", cat("join: expected str instances, found ", type_name(v)));
    }
  }
  return join(heap, self, items->items);
}

template <Case kCase>
Val case_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {});
  return change_case(heap, self, kCase);
}

// find, rfind, index, rindex
Val find_method(Heap&, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"sub", "start", "end"});
  const std::string& sub = p.string(0).string().text;
  const auto at = window(self, p, 1);
  const std::string_view text = self.string().text;
  const std::string_view inside = at ? text.substr(at->begin, at->size()) : "";
  const std::size_t found = !at                ? std::string_view::npos
                            : from_right(name) ? inside.rfind(sub)
                                               : inside.find(sub);
  if (found == std::string_view::npos) {
    if (name == "index" || name == "rindex") raise("ValueError", "substring not found");
    return integer(-1);
  }
  return integer(static_cast<std::int64_t>(count_code_points(text.substr(0, at->begin + found))));
}

Val count_method(Heap&, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"sub", "start", "end"});
  const std::string& sub = p.string(0).string().text;
  const auto at = window(self, p, 1);
  if (!at) return integer(0);
  const std::string_view inside =
      std::string_view(self.string().text).substr(at->begin, at->size());
  if (sub.empty()) return integer(static_cast<std::int64_t>(count_code_points(inside)) + 1);
  std::int64_t n = 0;
  for (std::size_t i = 0; (i = inside.find(sub, i)) != std::string_view::npos; i += sub.size()) ++n;
  return integer(n);
}

// partition, rpartition
Val partition_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"sep"});
  const std::string& text = self.string().text;
  const std::string& by = p.string(0).string().text;
  if (by.empty()) raise("ValueError", "empty separator");
  const std::size_t at = from_right(name) ? text.rfind(by) : text.find(by);
  const Val nothing = plain_string(&heap, "");
  if (at == std::string::npos) {
    return list(heap,
                from_right(name) ? std::vector<Val>{nothing, nothing, self}
                                 : std::vector<Val>{self, nothing, nothing},
                Kind::kTuple);
  }
  return list(heap,
              {substring(heap, self, 0, at), substring(heap, self, at, at + by.size()),
               substring(heap, self, at + by.size(), text.size())},
              Kind::kTuple);
}

// removeprefix, removesuffix
Val remove_affix(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"affix"});
  const std::string& text = self.string().text;
  const std::string& s = p.string(0).string().text;
  const bool prefix = name == "removeprefix";
  if (s.size() > text.size() ||
      text.compare(prefix ? 0 : text.size() - s.size(), s.size(), s) != 0) {
    return self;
  }
  return substring(heap, self, prefix ? s.size() : 0,
                   prefix ? text.size() : text.size() - s.size());
}

Val padded(Heap& heap, const Val& self, const Val& fill, std::int64_t left, std::int64_t right,
           std::size_t after) {
  TextBuilder out(heap);
  out.append(self, 0, after);
  out.append(repeat(heap, fill, left));
  out.append(self, after, self.string().text.size());
  out.append(repeat(heap, fill, right));
  return out.take();
}

std::int64_t padding(const Val& self, const Parameters& p) {
  return std::max<std::int64_t>(
      0, as_int(p.required(0), "width") - static_cast<std::int64_t>(length(self)));
}

// center, ljust, rjust
Val justify(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"width", "fillchar"});
  const std::int64_t pad = padding(self, p);
  const Val fill = p[1] != nullptr ? p.string(1) : plain_string(&heap, " ");
  if (length(fill) != 1) {
    raise("TypeError", "The fill character must be exactly one character long");
  }
  // Python puts the odd one of a centred text left where the width is odd.
  const std::int64_t left = name == "center"  ? pad / 2 + (pad & as_int(p.required(0), "width") & 1)
                            : name == "ljust" ? 0
                                              : pad;
  return padded(heap, self, fill, left, pad - left, 0);
}

Val zfill(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"width"});
  const std::string& text = self.string().text;
  const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  return padded(heap, self, plain_string(&heap, "0"), padding(self, p), 0, sign ? 1 : 0);
}

Val expand_tabs(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"tabsize"});
  const std::int64_t size = p[0] != nullptr ? as_int(*p[0], "tabsize") : 8;
  const std::string& text = self.string().text;
  const Val space = plain_string(&heap, " ");
  TextBuilder out(heap);
  std::size_t begin = 0;
  std::int64_t column = 0;
  for (std::size_t i = 0; i < text.size(); i += decode_utf8(text, i).length) {
    if (text[i] != '\t') {
      column = text[i] == '\n' || text[i] == '\r' ? 0 : column + 1;
      continue;
    }
    out.append(self, begin, i);
    begin = i + 1;
    if (size <= 0) continue;
    out.append(repeat(heap, space, size - column % size));
    column = 0;
  }
  out.append(self, begin, text.size());
  return out.take();
}

// By a mapping of code points to code points, texts or none.
Val translate(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"table"});
  const Val& table = p.required(0);
  if (!table.is(Kind::kDict)) raise("TypeError", "translate needs a mapping");
  const std::string& text = self.string().text;
  TextBuilder out(heap);
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    const Val key = integer(static_cast<std::int64_t>(d.code));
    const auto& items = table.dict().items;
    const auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) {
      return equals(heap, item.first, key);
    });
    if (found == items.end()) {
      out.append(self, i, i + d.length);
    } else if (found->second.is(Kind::kString)) {
      out.append(found->second);
    } else if (!found->second.is(Kind::kNone)) {
      out.append(character(as_int(found->second, "translate")), whole_source(heap, found->second));
    }
    i += d.length;
  }
  return out.take();
}

Val format_method(Heap& heap, const Val& self, const std::string&, const Args& args) {
  return format_braces(heap, self, args.positional, args.named);
}

Val format_map(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {"mapping"});
  if (!p.required(0).is(Kind::kDict)) raise("TypeError", "format_map needs a mapping");
  Args named;
  for (const auto& [key, value] : p.required(0).dict().items) {
    if (key.is(Kind::kString)) named.named.emplace_back(key.string().text, value);
  }
  return format_braces(heap, self, {}, named.named);
}

// isalpha, isdigit ...: whether every character is so, and there is one.
template <bool (*kHolds)(char32_t)>
Val every(Heap&, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {});
  const std::string& text = self.string().text;
  bool all = !text.empty();
  for (std::size_t i = 0; all && i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    all = kHolds(d.code);
    i += d.length;
  }
  return boolean(all);
}
bool is_alphabetic(char32_t code) {
  return char_classes()[code] == kLetter;
}
bool is_alphanumeric(char32_t code) {
  return is_alphabetic(code) || is_numeric(code);
}
// These two hold for "" too.
template <bool (*kHolds)(char32_t)>
Val every_or_none(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  return boolean(self.string().text.empty() || truth(every<kHolds>(heap, self, name, args)));
}
bool is_ascii(char32_t code) {
  return code < 0x80;
}

// islower, isupper, istitle: about the characters that have case, of which there must be one.
Val cased_test(Heap&, const Val& self, const std::string& name, const Args& args) {
  Parameters p(args, name, {});
  const std::string& text = self.string().text;
  bool any = false, all = true, after_cased = false;
  for (std::size_t i = 0; all && i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    const bool cased = is_cased(d.code);
    if (cased) {
      any = true;
      all = name == "islower"   ? is_lowercase(d.code)
            : name == "isupper" ? is_uppercase(d.code)
                                : is_lowercase(d.code) == after_cased;
    }
    after_cased = cased;
    i += d.length;
  }
  return boolean(any && all);
}

struct Named {
  std::string_view name;
  Method method;
  bool keywords = false;  // takes arguments by name
};
constexpr Named kMethods[] = {
    {"capitalize", case_method<Case::kCapitalize>},
    {"casefold", case_method<Case::kFold>},
    {"center", justify},
    {"count", count_method},
    {"endswith", affix_test},
    {"expandtabs", expand_tabs, true},
    {"find", find_method},
    {"format", format_method, true},
    {"format_map", format_map},
    {"index", find_method},
    {"isalnum", every<is_alphanumeric>},
    {"isalpha", every<is_alphabetic>},
    {"isascii", every_or_none<is_ascii>},
    {"isdecimal", every<is_decimal>},
    {"isdigit", every<is_digit>},
    {"islower", cased_test},
    {"isnumeric", every<is_numeric>},
    {"isprintable", every_or_none<is_printable>},
    {"isspace", every<is_python_space>},
    {"istitle", cased_test},
    {"isupper", cased_test},
    {"join", join_method},
    {"ljust", justify},
    {"lower", case_method<Case::kLower>},
    {"lstrip", strip_method},
    {"partition", partition_method},
    {"removeprefix", remove_affix},
    {"removesuffix", remove_affix},
    {"replace", replace_method},
    {"rfind", find_method},
    {"rindex", find_method},
    {"rjust", justify},
    {"rpartition", partition_method},
    {"rsplit", split_method, true},
    {"rstrip", strip_method},
    {"split", split_method, true},
    {"splitlines", split_lines_method, true},
    {"startswith", affix_test},
    {"strip", strip_method},
    {"swapcase", case_method<Case::kSwap>},
    {"title", case_method<Case::kTitle>},
    {"translate", translate},
    {"upper", case_method<Case::kUpper>},
    {"zfill", zfill},
};

const Named* find_named(std::string_view name) {
  const auto* found =
      std::lower_bound(std::begin(kMethods), std::end(kMethods), name,
                       [](const Named& m, std::string_view n) { return m.name < n; });
  return found != std::end(kMethods) && found->name == name ? found : nullptr;
}

}  // namespace

bool is_string_method(std::string_view name) {
  return find_named(name) != nullptr;
}

Val string_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  heap.step(self.string().text.size() / 64);
  const Named* m = find_named(name);
  check(m != nullptr, "a method that is_string_method does not know");
  if (!m->keywords && !args.named.empty()) {
    raise("TypeError", cat("str.", name, "() takes no keyword arguments"));
  }
  return m->method(heap, self, name, args);
}

}  // namespace glmtune::text::jinja
