// Methods of strings, lists and dicts, and the binding of arguments.
#include <algorithm>
#include <array>

#include "base/cat.h"
#include "text/template_runtime.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

constexpr std::array<std::string_view, 33> kStringMethods = {
    "capitalize", "casefold",     "center",  "count",   "endswith", "find",      "format",
    "index",      "isalnum",      "isalpha", "isdigit", "islower",  "isnumeric", "isspace",
    "isupper",    "join",         "ljust",   "lower",   "lstrip",   "partition", "removeprefix",
    "replace",    "removesuffix", "rfind",   "rjust",   "rsplit",   "rstrip",    "split",
    "splitlines", "startswith",   "strip",   "title",   "upper"};
constexpr std::array<std::string_view, 4> kMoreStringMethods = {"swapcase", "zfill", "rpartition",
                                                                "rindex"};
constexpr std::array<std::string_view, 11> kDictMethods = {
    "items", "keys",    "values",     "get",   "copy",    "update",
    "pop",   "popitem", "setdefault", "clear", "fromkeys"};
constexpr std::array<std::string_view, 11> kListMethods = {"index",   "count",  "copy", "append",
                                                           "extend",  "insert", "pop",  "remove",
                                                           "reverse", "sort",   "clear"};

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Val dict_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  const auto& items = self.dict().items;
  heap.step(items.size());
  if (name == "items" || name == "keys" || name == "values") {
    Parameters p(args, name, {});
    if (name != "keys") self.dict().read_all();
    std::vector<Val> out;
    for (const auto& [key, value] : items) {
      out.push_back(name == "items"  ? list(heap, {key, value}, Kind::kTuple)
                    : name == "keys" ? key
                                     : value);
    }
    return list(heap, std::move(out), Kind::kView,
                name == "items"  ? "dict_items"
                : name == "keys" ? "dict_keys"
                                 : "dict_values");
  }
  if (name == "get") {
    Parameters p(args, "get", {"key", "default"});
    require_hashable(heap, p.required(0));
    if (const Val* v = self.dict().find(heap, p.required(0))) return *v;
    return p[1] != nullptr ? *p[1] : none();
  }
  if (name == "copy") return self;
  raise("SecurityError", cat("dict.", name, " changes its dict, which templates may not"));
}

}  // namespace

Parameters::Parameters(const Args& args, std::string_view function,
                       std::initializer_list<std::string_view> names)
    : function_(function), names_(names.begin(), names.end()), values_(names.size(), nullptr) {
  if (args.positional.size() > names_.size()) {
    raise("TypeError", cat(function_, "() takes at most ", names_.size(), " arguments, found ",
                           args.positional.size()));
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) {
      raise("TypeError", cat(function_, "() got an unexpected keyword argument '", name, "'"));
    }
    const Val*& slot = values_[static_cast<std::size_t>(at - names_.begin())];
    if (slot != nullptr) {
      raise("TypeError", cat(function_, "() got multiple values for argument '", name, "'"));
    }
    slot = &value;
  }
}

const Val& Parameters::required(std::size_t i) const {
  if (values_[i] == nullptr) {
    raise("TypeError", cat(function_, "() missing the argument '", names_[i], "'"));
  }
  return *values_[i];
}

const Val* Parameters::given(std::size_t i) const {
  return values_[i] != nullptr && !values_[i]->is(Kind::kNone) ? values_[i] : nullptr;
}

std::int64_t Parameters::integer(std::size_t i, std::int64_t otherwise) const {
  return given(i) != nullptr ? as_int(*values_[i], cat(function_, "(", names_[i], ")")) : otherwise;
}

bool Parameters::flag(std::size_t i, bool otherwise) const {
  return values_[i] != nullptr ? truth(*values_[i]) : otherwise;
}

const Val& Parameters::string(std::size_t i) const {
  const Val& v = required(i);
  if (v.is(Kind::kUndefined)) undefined_error(v);
  if (!v.is(Kind::kString)) {
    raise("TypeError", cat(function_, "(", names_[i], ") must be str, not ", type_name(v)));
  }
  return v;
}

const Val* Parameters::optional_string(std::size_t i) const {
  return given(i) != nullptr ? &string(i) : nullptr;
}

bool has_method(const Val& v, std::string_view name) {
  switch (v.kind) {
    case Kind::kString:
      return among(kStringMethods, name) || among(kMoreStringMethods, name);
    case Kind::kDict:
      return among(kDictMethods, name);
    case Kind::kList:
      return among(kListMethods, name);
    case Kind::kTuple:
      return name == "index" || name == "count";
    default:
      return false;
  }
}

Val call_method(Heap& heap, const MethodObject& m, const Args& args) {
  heap.step();
  switch (m.self.kind) {
    case Kind::kString:
      return string_method(heap, m.self, m.name, args);
    case Kind::kDict:
      return dict_method(heap, m.self, m.name, args);
    case Kind::kLoop: {
      LoopObject& loop = static_cast<LoopObject&>(*m.self.object);
      if (m.name == "cycle") {
        if (args.positional.empty()) raise("TypeError", "no items for cycling given");
        return args.positional[loop.index % args.positional.size()];
      }
      const bool same =
          loop.changed.size() == args.positional.size() &&
          std::equal(loop.changed.begin(), loop.changed.end(), args.positional.begin(),
                     [&](const Val& a, const Val& b) { return equals(heap, a, b); });
      const bool changed = !same || loop.changed.empty();
      if (loop.statement != nullptr) loop.changed = args.positional;
      return boolean(changed);
    }
    default:
      return list_method(heap, m.self, m.name, args);
  }
}

Val list_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  const auto& items = self.list().items;
  heap.step(items.size() / 8);
  if (name == "count" || name == "index") {
    Parameters p(args, name, {"value"});
    std::int64_t count = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!equals(heap, items[i], p.required(0))) continue;
      if (name == "index") return integer(static_cast<std::int64_t>(i));
      ++count;
    }
    if (name == "index") raise("ValueError", "the value is not in the list");
    return integer(count);
  }
  if (name == "copy") return self;
  raise("SecurityError", cat("list.", name, " changes its list, which templates may not"));
}

Val string_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  const std::string& text = self.string().text;
  heap.step(text.size() / 64);
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    Parameters p(args, name, {"chars"});
    return strip(heap, self, p.optional_string(0), name != "rstrip", name != "lstrip");
  }
  if (name == "split" || name == "rsplit") {
    Parameters p(args, name, {"sep", "maxsplit"});
    return list(heap, split(heap, self, p.optional_string(0), p.integer(1, -1), name == "rsplit"));
  }
  if (name == "startswith" || name == "endswith") {
    Parameters p(args, name, {"prefix"});
    const auto matches = [&](const Val& v) {
      if (!v.is(Kind::kString)) {
        if (v.is(Kind::kUndefined)) undefined_error(v);
        raise("TypeError",
              cat(name, " first arg must be str or a tuple of str, not ", type_name(v)));
      }
      const std::string& s = v.string().text;
      return s.size() <= text.size() &&
             text.compare(name == "startswith" ? 0 : text.size() - s.size(), s.size(), s) == 0;
    };
    const Val& what = p.required(0);
    if (!what.is(Kind::kTuple)) return boolean(matches(what));
    return boolean(std::any_of(what.list().items.begin(), what.list().items.end(), matches));
  }
  if (name == "replace") {
    Parameters p(args, name, {"old", "new", "count"});
    return replace(heap, self, p.string(0), p.string(1), p.integer(2, -1));
  }
  if (name == "join") {
    Parameters p(args, name, {"iterable"});
    const auto items = elements(heap, p.required(0));
    for (const Val& v : items->items) {
      if (!v.is(Kind::kString)) {
        raise("TypeError", cat("join: expected str instances, found ", type_name(v)));
      }
    }
    return join(heap, self, items->items);
  }
  if (name == "upper") return change_case(heap, self, Case::kUpper);
  if (name == "lower" || name == "casefold") return change_case(heap, self, Case::kLower);
  if (name == "title") return change_case(heap, self, Case::kTitle);
  if (name == "capitalize") return change_case(heap, self, Case::kCapitalize);
  if (name == "swapcase") return change_case(heap, self, Case::kSwap);
  if (name == "splitlines") {
    Parameters p(args, name, {"keepends"});
    return list(heap, split_lines(heap, self, p.flag(0, false)));
  }
  if (name == "format") return format_braces(heap, self, args.positional, args.named);
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count") {
    Parameters p(args, name, {"sub"});
    const std::string& sub = p.string(0).string().text;
    if (name == "count") {
      std::int64_t n = sub.empty() ? static_cast<std::int64_t>(length(self)) + 1 : 0;
      for (std::size_t at = 0; !sub.empty() && (at = text.find(sub, at)) != std::string::npos;
           at += sub.size()) {
        ++n;
      }
      return integer(n);
    }
    const std::size_t at = name[0] == 'r' ? text.rfind(sub) : text.find(sub);
    if (at == std::string::npos) {
      if (name.find("index") != std::string::npos) raise("ValueError", "substring not found");
      return integer(-1);
    }
    return integer(
        static_cast<std::int64_t>(count_code_points(std::string_view(text).substr(0, at))));
  }
  if (name == "partition" || name == "rpartition") {
    Parameters p(args, name, {"sep"});
    const std::string& by = p.string(0).string().text;
    if (by.empty()) raise("ValueError", "empty separator");
    const std::size_t at = name[0] == 'r' ? text.rfind(by) : text.find(by);
    const Val nothing = plain_string(&heap, "");
    if (at == std::string::npos) {
      return list(heap,
                  name[0] == 'r' ? std::vector<Val>{nothing, nothing, self}
                                 : std::vector<Val>{self, nothing, nothing},
                  Kind::kTuple);
    }
    return list(heap,
                {substring(heap, self, 0, at), substring(heap, self, at, at + by.size()),
                 substring(heap, self, at + by.size(), text.size())},
                Kind::kTuple);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    Parameters p(args, name, {"affix"});
    const std::string& s = p.string(0).string().text;
    const bool prefix = name == "removeprefix";
    if (s.size() > text.size() ||
        text.compare(prefix ? 0 : text.size() - s.size(), s.size(), s) != 0) {
      return self;
    }
    return substring(heap, self, prefix ? s.size() : 0,
                     prefix ? text.size() : text.size() - s.size());
  }
  if (name == "center" || name == "ljust" || name == "rjust" || name == "zfill") {
    Parameters p(args, name, {"width", "fillchar"});
    const std::int64_t pad =
        std::max<std::int64_t>(0, p.integer(0, 0) - static_cast<std::int64_t>(length(self)));
    const Val fill =
        p[1] != nullptr ? p.string(1) : plain_string(&heap, name == "zfill" ? "0" : " ");
    // Python puts the odd one of a centred text left where the width is odd.
    const std::int64_t left = name == "center"  ? pad / 2 + (pad & p.integer(0, 0) & 1)
                              : name == "ljust" ? 0
                                                : pad;
    const std::size_t sign =
        name == "zfill" && !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    TextBuilder out(heap);
    out.append(self, 0, sign);
    out.append(repeat(heap, fill, left));
    out.append(self, sign, text.size());
    out.append(repeat(heap, fill, pad - left));
    return out.take();
  }
  // What is left asks about every character: isalpha, isdigit ...
  bool any = false;
  bool all = !text.empty();
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    const auto c = static_cast<CharClass>(char_classes()[d.code]);
    std::string mapped;
    if (name == "isupper" || name == "islower") {
      if (is_cased(d.code)) {
        any = true;
        name == "isupper" ? append_upper(mapped, d.code) : append_lower(mapped, d.code);
        all = all && mapped == std::string_view(text).substr(i, d.length);
      }
    } else {
      any = true;
      all = all && (name == "isalpha"   ? c == kLetter
                    : name == "isalnum" ? c == kLetter || c == kNumber
                    : name == "isspace" ? is_python_space(d.code)
                                        : c == kNumber);
    }
    i += d.length;
  }
  return boolean(any && all);
}

}  // namespace glmtune::text::jinja
