// Methods of lists and dicts, and the binding of arguments.
#include <algorithm>
#include <array>

#include "base/cat.h"
#include "text/template_runtime.h"

namespace glmtune::text::jinja {
namespace {

constexpr std::array<std::string_view, 6> kDictMethods = {"items", "keys", "values",
                                                          "get",   "copy", "fromkeys"};
constexpr std::array<std::string_view, 5> kDictChanges = {"update", "pop", "popitem", "setdefault",
                                                          "clear"};
constexpr std::array<std::string_view, 3> kListMethods = {"index", "count", "copy"};
constexpr std::array<std::string_view, 8> kListChanges = {"append", "extend",  "insert", "pop",
                                                          "remove", "reverse", "sort",   "clear"};

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Val dict_method(Heap& heap, const Val& self, const std::string& name, const Args& args) {
  const auto& items = self.dict().items;
  heap.step(items.size());
  if (!args.named.empty()) raise("TypeError", cat("dict.", name, "() takes no keyword arguments"));
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
  if (name == "copy") {
    Parameters p(args, name, {});
    return self;
  }
  Parameters p(args, "fromkeys", {"iterable", "value"});
  const auto keys = elements(heap, p.required(0));
  DictObject::Items out;
  for (const Val& key : keys->items) {
    require_hashable(heap, key);
    const auto same = [&](const auto& item) { return equals(heap, item.first, key); };
    if (std::none_of(out.begin(), out.end(), same)) {
      out.emplace_back(key, p[1] != nullptr ? *p[1] : none());
    }
  }
  return dict(heap, std::move(out));
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
      return is_string_method(name);
    case Kind::kDict:
      return among(kDictMethods, name);
    case Kind::kList:
      if (!v.is_range()) return among(kListMethods, name);
      [[fallthrough]];
    case Kind::kTuple:
      return name == "index" || name == "count";
    default:
      return false;
  }
}

bool changes_its_object(const Val& v, std::string_view name) {
  if (v.is(Kind::kDict)) return among(kDictChanges, name);
  return v.is(Kind::kList) && !v.is_range() && among(kListChanges, name);
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
  if (!args.named.empty()) raise("TypeError", cat(name, "() takes no keyword arguments"));
  if (name == "count") {
    Parameters p(args, name, {"value"});
    const Val& value = p.required(0);
    return integer(std::count_if(items.begin(), items.end(),
                                 [&](const Val& item) { return equals(heap, item, value); }));
  }
  if (name == "index") {
    const bool is_range = self.is_range();
    Parameters p(args, name, {"value", "start", "stop"});
    if (is_range && p[1] != nullptr) raise("TypeError", "range.index() takes one argument");
    const auto n = static_cast<std::int64_t>(items.size());
    const auto place = [&](std::size_t at, std::int64_t otherwise) {
      const std::int64_t i = p[at] != nullptr ? as_int(*p[at], "index") : otherwise;
      return std::min(i < 0 ? std::max<std::int64_t>(0, i + n) : i, n);
    };
    const std::int64_t stop = place(2, n);
    for (std::int64_t i = place(1, 0); i < stop; ++i) {
      if (equals(heap, items[static_cast<std::size_t>(i)], p.required(0))) return integer(i);
    }
    raise("ValueError", "the value is not in the list");
  }
  Parameters p(args, "copy", {});
  return self;
}

}  // namespace glmtune::text::jinja
