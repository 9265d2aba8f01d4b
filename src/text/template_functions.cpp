// Global functions, and tests (`x is ...`).
#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "base/cat.h"
#include "text/template_runtime.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

constexpr std::array<std::string_view, 8> kFunctions = {
    "range", "dict", "namespace", "raise_exception", "strftime_now", "cycler", "joiner", "lipsum"};

constexpr std::array<std::string_view, 39> kTests = {
    "!=",       "<",        "<=",          "==",       ">",           ">=",       "boolean",
    "callable", "defined",  "divisibleby", "eq",       "equalto",     "escaped",  "even",
    "false",    "filter",   "float",       "ge",       "greaterthan", "gt",       "in",
    "integer",  "iterable", "le",          "lessthan", "lower",       "lt",       "mapping",
    "ne",       "none",     "number",      "odd",      "sameas",      "sequence", "string",
    "test",     "true",     "undefined",   "upper"};

// The limit of Jinja's sandbox.
constexpr std::int64_t kMaxRange = 100'000;

Val function_value(std::string name) {
  Val v;
  v.kind = Kind::kFunction;
  v.object = std::make_shared<FunctionObject>(std::move(name));
  return v;
}

Val range(Heap& heap, const Args& args) {
  if (!args.named.empty()) raise("TypeError", "range() takes no keyword arguments");
  Parameters p(args, "range", {"start", "stop", "step"});
  std::int64_t start = as_int(p.required(0), "range");
  std::int64_t stop = start;
  if (p[1] != nullptr) {
    stop = as_int(*p[1], "range");
  } else {
    start = 0;
  }
  const std::int64_t step = p[2] != nullptr ? as_int(*p[2], "range") : 1;
  if (step == 0) raise("ValueError", "range() arg 3 must not be zero");
  std::vector<Val> out;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<std::int64_t>(out.size()) == kMaxRange) {
      raise("OverflowError", cat("range() of more than ", kMaxRange, " numbers"));
    }
    out.push_back(integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  heap.step(out.size() / 8);
  return range(heap, std::move(out), start, stop, step);
}

DictObject::Items merged(Heap& heap, const Args& args) {
  DictObject::Items items;
  const auto set = [&](const Val& key, const Val& value) {
    heap.step();
    for (auto& [k, v] : items) {
      if (equals(heap, k, key)) {
        v = value;
        return;
      }
    }
    items.emplace_back(key, value);
  };
  if (args.positional.size() > 1) raise("TypeError", "dict() takes one positional argument");
  for (const Val& from : args.positional) {
    if (from.is(Kind::kDict)) {
      from.dict().read_all();
      for (const auto& [k, v] : from.dict().items) set(k, v);
      continue;
    }
    const auto all = elements(heap, from);
    for (const Val& pair : all->items) {
      const auto both = elements(heap, pair);
      if (both->items.size() != 2) raise("ValueError", "dict() needs pairs");
      set(both->items[0], both->items[1]);
    }
  }
  for (const auto& [name, value] : args.named) set(plain_string(&heap, name), value);
  return items;
}

Val make_namespace(Heap& heap, const Args& args) {
  auto object = std::make_shared<NamespaceObject>(&heap);
  for (const auto& [key, value] : merged(heap, args)) {
    if (!key.is(Kind::kString)) raise("TypeError", "namespace() needs names");
    object->items.emplace_back(key.string().text, value);
  }
  Val v;
  v.kind = Kind::kNamespace;
  v.object = object;
  heap.keep(std::move(object));
  return v;
}

Val strftime_now(Runtime& rt, const Args& args) {
  Parameters p(args, "strftime_now", {"format"});
  std::tm now{};
  if (rt.options.now) {
    now = *rt.options.now;
  } else {
    const std::time_t seconds = std::time(nullptr);
    localtime_r(&seconds, &now);
  }
  // The space tells an empty result from a buffer that is too small.
  const Val& asked = p.string(0);
  const std::string format = asked.string().text + " ";
  if (format.size() > 1000) raise("ValueError", "strftime_now: the format is too long");
  std::string out(format.size() * 64 + 256, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &now));
  if (!out.empty()) out.pop_back();
  return plain_string(&rt.heap, out, whole_source(rt.heap, asked));  // what no % begins stays
}

bool is_callable(const Val& v) {
  return v.is(Kind::kMacro) || v.is(Kind::kFunction) || v.is(Kind::kMethod) || v.is(Kind::kLoop);
}

}  // namespace

Val builtin_function(std::string_view name) {
  if (std::find(kFunctions.begin(), kFunctions.end(), name) == kFunctions.end()) return none();
  return function_value(std::string(name));
}

Val function_attribute(const Val& function, const std::string& name) {
  const auto& f = static_cast<const FunctionObject&>(*function.object);
  if (f.name == "a cycler" && !f.values.empty()) {
    if (name == "current") return f.values[f.position];
    if (name == "next" || name == "reset") {
      Val v = function_value(cat("cycler.", name));
      static_cast<FunctionObject&>(*v.object).values = {function};
      return v;
    }
  }
  return undefined(cat("'function object' has no attribute '", name, "'"));
}

Val call_function(Runtime& rt, FunctionObject& f, const Args& args) {
  Heap& heap = rt.heap;
  heap.step();
  if (f.name == "range") return range(heap, args);
  if (f.name == "dict") return dict(heap, merged(heap, args));
  if (f.name == "namespace") return make_namespace(heap, args);
  if (f.name == "strftime_now") return strftime_now(rt, args);
  if (f.name == "raise_exception") {
    Parameters p(args, "raise_exception", {"message"});
    raise("TemplateError", to_string(heap, p.required(0)).string().text);
  }
  if (f.name == "cycler") {
    if (args.positional.empty()) raise("RuntimeError", "at least one item has to be provided");
    Val v = function_value("a cycler");
    static_cast<FunctionObject&>(*v.object).values = args.positional;
    return v;
  }
  if (f.name == "cycler.next" || f.name == "cycler.reset") {
    auto& cycler = static_cast<FunctionObject&>(*f.values[0].object);
    const std::size_t at = cycler.position;
    cycler.position = f.name == "cycler.next" ? (at + 1) % cycler.values.size() : 0;
    return f.name == "cycler.next" ? cycler.values[at] : none();
  }
  if (f.name == "joiner") {
    Parameters p(args, "joiner", {"sep"});
    Val v = function_value("a joiner");
    static_cast<FunctionObject&>(*v.object).values = {p[0] != nullptr ? *p[0]
                                                                      : plain_string(&heap, ", ")};
    return v;
  }
  if (f.name == "a joiner") return f.position++ == 0 ? plain_string(&heap, "") : f.values[0];
  raise("TypeError", cat("the function ", f.name, " is not supported"));
}

bool is_test(std::string_view name) {
  return std::find(kTests.begin(), kTests.end(), name) != kTests.end();
}

bool apply_test(Runtime& rt, const std::string& name, const Val& v, const Args& args) {
  rt.heap.step();
  const auto other = [&]() -> const Val& {
    if (args.positional.size() != 1 || !args.named.empty()) {
      raise("TypeError", cat("the test '", name, "' takes one argument"));
    }
    return args.positional[0];
  };
  const auto ordered = [&](std::string_view op) { return compare(rt.heap, v, other(), op); };
  if (name == "defined") return !v.is(Kind::kUndefined);
  if (name == "undefined") return v.is(Kind::kUndefined);
  if (name == "none") return v.is(Kind::kNone);
  if (name == "string") return v.is(Kind::kString);
  if (name == "mapping") return v.is(Kind::kDict);
  if (name == "iterable") {
    return v.is(Kind::kString) || v.is_sequence() || v.is(Kind::kDict) || v.is(Kind::kUndefined) ||
           v.is(Kind::kLoop);
  }
  if (name == "sequence") {
    return v.is(Kind::kString) || v.is(Kind::kList) || v.is(Kind::kTuple) || v.is(Kind::kDict) ||
           v.is(Kind::kUndefined);
  }
  if (name == "boolean") return v.is(Kind::kBool);
  if (name == "true") return v.is(Kind::kBool) && v.boolean;
  if (name == "false") return v.is(Kind::kBool) && !v.boolean;
  if (name == "integer") return v.is(Kind::kInt);
  if (name == "float") return v.is(Kind::kFloat);
  if (name == "number") return v.is_number();
  if (name == "callable") return is_callable(v) || v.is(Kind::kUndefined);
  if (name == "sameas") {
    const Val& o = other();
    return v.kind == o.kind && (v.object ? v.object == o.object : equals(rt.heap, v, o));
  }
  if (name == "odd" || name == "even" || name == "divisibleby") {
    const std::int64_t by = name == "divisibleby" ? as_int(other(), name) : 2;
    const Val rest = binary(rt.heap, '%', v, integer(by));
    return equals(rt.heap, rest, integer(name == "odd" ? 1 : 0));
  }
  if (name == "eq" || name == "equalto" || name == "==") return equals(rt.heap, v, other());
  if (name == "ne" || name == "!=") return !equals(rt.heap, v, other());
  if (name == "lt" || name == "lessthan" || name == "<") return ordered("<") < 0;
  if (name == "le" || name == "<=") return ordered("<=") <= 0;
  if (name == "gt" || name == "greaterthan" || name == ">") return ordered(">") > 0;
  if (name == "ge" || name == ">=") return ordered(">=") >= 0;
  if (name == "in") return contains(rt.heap, v, other());
  if (name == "lower" || name == "upper") {
    const Val text = to_string(rt.heap, v);
    return truth(string_method(rt.heap, text, cat("is", name), {}));
  }
  if (name == "escaped") return false;
  if (name == "filter" || name == "test") {
    const bool text = v.is(Kind::kString);
    if (!text) require_hashable(rt.heap, v);
    return text && (name == "test" ? is_test(v.string().text) : is_filter(v.string().text));
  }
  raise("TemplateRuntimeError", cat("No test named '", name, "'"));
}

}  // namespace glmtune::text::jinja
