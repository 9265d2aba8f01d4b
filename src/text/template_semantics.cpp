// What Python does with values: truth, equality, order, membership, iteration.
#include <algorithm>

#include "base/cat.h"
#include "text/template_value.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

// Above the nesting that a list or a dict may have.
constexpr int kMaxDepth = 808;

void guard(int depth) {
  if (depth > kMaxDepth) raise("RecursionError", "values are nested too deeply");
}

}  // namespace

std::string_view type_name(const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return v.is_range() ? v.list().name : "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kView:
    case Kind::kIterator:
      return v.list().name.empty() ? "generator" : v.list().name;
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kLoop:
      return "LoopContext";
  }
  return "object";
}

void undefined_error(const Val& v) {
  const bool refused = dynamic_cast<const UnsafeObject*>(v.object.get()) != nullptr;
  raise(refused ? "SecurityError" : "UndefinedError",
        v.object ? v.string().text : "a value is undefined");
}

bool truth(const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return v.boolean;
    case Kind::kInt:
      return v.integer != 0;
    case Kind::kFloat:
      return v.number != 0;
    case Kind::kString:
      return !v.string().text.empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return !v.list().items.empty();
    case Kind::kDict:
      return !v.dict().items.empty();
    default:
      return true;
  }
}

double as_double(const Val& v) {
  if (v.is(Kind::kBool)) return v.boolean ? 1 : 0;
  return v.is(Kind::kInt) ? static_cast<double>(v.integer) : v.number;
}

std::int64_t as_int(const Val& v, std::string_view what) {
  if (v.is(Kind::kInt)) return v.integer;
  if (v.is(Kind::kBool)) return v.boolean ? 1 : 0;
  if (v.is(Kind::kUndefined)) undefined_error(v);
  raise("TypeError", cat(what, ": expected an integer, found ", type_name(v)));
}

bool equals(Heap& heap, const Val& a, const Val& b, int depth) {
  guard(depth);
  heap.step();
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) return as_double(a) == as_double(b);
    return as_int(a, "") == as_int(b, "");
  }
  if (a.kind != b.kind || a.is_range() != b.is_range()) return false;
  switch (a.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.string().text == b.string().text;
    case Kind::kList:
    case Kind::kTuple: {
      const auto& x = a.list().items;
      const auto& y = b.list().items;
      return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                        [&](const Val& p, const Val& q) { return equals(heap, p, q, depth + 1); });
    }
    case Kind::kDict: {
      const auto& x = a.dict().items;
      const auto& y = b.dict().items;
      if (x.size() != y.size()) return false;
      return std::all_of(x.begin(), x.end(), [&](const auto& p) {
        return std::any_of(y.begin(), y.end(), [&](const auto& q) {
          return equals(heap, p.first, q.first, depth + 1) &&
                 equals(heap, p.second, q.second, depth + 1);
        });
      });
    }
    default:
      return a.object == b.object;
  }
}

int compare(Heap& heap, const Val& a, const Val& b, std::string_view op, int depth) {
  guard(depth);
  heap.step();
  if (a.is_number() && b.is_number()) {
    if (!a.is(Kind::kFloat) && !b.is(Kind::kFloat)) {
      const std::int64_t x = as_int(a, "");
      const std::int64_t y = as_int(b, "");
      return x < y ? -1 : x > y ? 1 : 0;
    }
    const double x = as_double(a);
    const double y = as_double(b);
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.is(Kind::kUndefined)) undefined_error(a);
  if (b.is(Kind::kUndefined)) undefined_error(b);
  if (a.kind == b.kind && a.is(Kind::kString)) {
    return a.string().text.compare(b.string().text);
  }
  if (a.kind == b.kind && !a.is_range() && !b.is_range() &&
      (a.is(Kind::kList) || a.is(Kind::kTuple))) {
    const auto& x = a.list().items;
    const auto& y = b.list().items;
    for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!equals(heap, x[i], y[i], depth + 1)) return compare(heap, x[i], y[i], op, depth + 1);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  raise("TypeError", cat("'", op, "' not supported between instances of '", type_name(a), "' and '",
                         type_name(b), "'"));
}

void require_hashable(Heap& heap, const Val& v) {
  heap.step();
  if ((v.is(Kind::kList) && !v.is_range()) || v.is(Kind::kDict)) {
    raise("TypeError", cat("unhashable type: '", type_name(v), "'"));
  }
  if (!v.is(Kind::kTuple)) return;
  for (const Val& item : v.list().items) require_hashable(heap, item);
}

bool contains(Heap& heap, const Val& item, const Val& container) {
  if (container.is(Kind::kString)) {
    if (item.is(Kind::kUndefined)) undefined_error(item);
    if (!item.is(Kind::kString)) {
      raise("TypeError",
            cat("'in <string>' requires string as left operand, not ", type_name(item)));
    }
    heap.step(container.string().text.size() / 64);
    return container.string().text.find(item.string().text) != std::string::npos;
  }
  if (container.is(Kind::kDict)) {
    require_hashable(heap, item);
    heap.step(container.dict().items.size() / 8);
    return container.dict().find(heap, item) != nullptr;
  }
  const auto all = elements(heap, container);
  heap.step(all->items.size() / 8);
  return std::any_of(all->items.begin(), all->items.end(),
                     [&](const Val& v) { return equals(heap, v, item); });
}

std::size_t length(const Val& v) {
  switch (v.kind) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return count_code_points(v.string().text);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return v.list().items.size();
    case Kind::kDict:
      return v.dict().items.size();
    default:
      raise("TypeError", cat("object of type '", type_name(v), "' has no len()"));
  }
}

std::shared_ptr<const ListObject> elements(Heap& heap, const Val& v) {
  if (v.is_sequence()) {
    const auto object = std::static_pointer_cast<ListObject>(v.object);
    if (!v.is(Kind::kIterator)) return object;
    if (object->used) return std::make_shared<ListObject>(nullptr, std::vector<Val>());
    object->used = true;
    return object;
  }
  std::vector<Val> items;
  if (v.is(Kind::kDict)) {
    items.reserve(v.dict().items.size());
    for (const auto& item : v.dict().items) items.push_back(item.first);
  } else if (v.is(Kind::kString)) {
    const StringObject& s = v.string();
    heap.expect(s.text.size() * (sizeof(Val) + sizeof(StringObject)));
    heap.step(s.text.size());
    std::size_t run = 0;
    for (std::size_t i = 0; i < s.text.size();) {
      const std::size_t n = decode_utf8(s.text, i).length;
      while (run < s.runs.size() && s.runs[run].end <= i) ++run;
      items.push_back(
          plain_string(&heap, s.text.substr(i, n), s.runs.empty() ? v.source : s.runs[run].source));
      i += n;
    }
  } else if (!v.is(Kind::kUndefined)) {
    raise("TypeError", cat("'", type_name(v), "' object is not iterable"));
  }
  return std::make_shared<ListObject>(&heap, std::move(items));
}

Source whole_source(Heap& heap, const Val& v, int depth) {
  guard(depth);
  heap.step();
  // A message printed whole is data that is none of its single fields.
  const auto as_text = [](Source s) {
    if (s.origin == Origin::kData && s.field == Field::kNone) s.field = Field::kOther;
    return s;
  };
  if (v.source.origin == Origin::kData) return as_text(v.source);
  Source found = v.source;
  const auto look = [&](Source s) {
    if (s.origin == Origin::kData || found.origin == Origin::kTemplate) found = s;
    return s.origin == Origin::kData;
  };
  if (v.is(Kind::kString)) {
    for (const Run& run : v.string().runs) {
      if (look(run.source)) break;
    }
  } else if (v.is_sequence()) {
    for (const Val& item : v.list().items) {
      if (look(whole_source(heap, item, depth + 1))) break;
    }
  } else if (v.is(Kind::kDict)) {
    for (const auto& [key, value] : v.dict().items) {
      if (look(whole_source(heap, key, depth + 1)) || look(whole_source(heap, value, depth + 1)))
        break;
    }
  }
  return as_text(found);
}

}  // namespace glmtune::text::jinja
