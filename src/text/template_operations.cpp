// Attributes, items, slices and arithmetic.
#include <cmath>

#include "base/cat.h"
#include "text/template_runtime.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

std::string described(const Val& v) {
  if (v.is(Kind::kNone)) return "None";
  return std::string(type_name(v)).append(" object");
}

Val no_attribute(const std::string& object, const std::string& name) {
  std::string what(1, '\'');
  what.append(object).append("' has no attribute '").append(name).append(1, '\'');
  return undefined(std::move(what));
}

Val missing_item(const Val& object, const Val& key) {
  if (key.is(Kind::kString)) return no_attribute(described(object), key.string().text);
  std::string what = described(object);
  what.append(" has no element ");
  what.append(key.is(Kind::kInt) ? std::to_string(key.integer) : std::string("of that key"));
  return undefined(std::move(what));
}

Val loop_attribute(const Val& v, const std::string& name) {
  const LoopObject& loop = static_cast<const LoopObject&>(*v.object);
  const auto n = static_cast<std::int64_t>(loop.items->items.size());
  const auto i = static_cast<std::int64_t>(loop.index);
  if (name == "index") return integer(i + 1);
  if (name == "index0") return integer(i);
  if (name == "revindex") return integer(n - i);
  if (name == "revindex0") return integer(n - i - 1);
  if (name == "first") return boolean(i == 0);
  if (name == "last") return boolean(i == n - 1);
  if (name == "length") return integer(n);
  if (name == "depth") return integer(loop.depth + 1);
  if (name == "depth0") return integer(loop.depth);
  if (name == "previtem") {
    return i > 0 ? loop.items->items[loop.index - 1] : undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return i + 1 < n ? loop.items->items[loop.index + 1] : undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") return method(v, name);
  return no_attribute("LoopContext object", name);
}

[[noreturn]] void bad_operands(std::string_view op, const Val& a, const Val& b) {
  if (a.is(Kind::kUndefined)) undefined_error(a);
  if (b.is(Kind::kUndefined)) undefined_error(b);
  raise("TypeError", cat("unsupported operand type(s) for ", op, ": '", type_name(a), "' and '",
                         type_name(b), "'"));
}

[[noreturn]] void overflow() {
  raise("OverflowError", "an integer of more than 64 bits");
}

std::int64_t int_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) overflow();
  }
  return result;
}

Val int_arithmetic(char op, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  const auto nonzero = [&] {
    if (b == 0) raise("ZeroDivisionError", "division by zero");
    if (a == INT64_MIN && b == -1) overflow();
  };
  switch (op) {
    case '+':
      if (__builtin_add_overflow(a, b, &r)) overflow();
      return integer(r);
    case '-':
      if (__builtin_sub_overflow(a, b, &r)) overflow();
      return integer(r);
    case '*':
      if (__builtin_mul_overflow(a, b, &r)) overflow();
      return integer(r);
    case 'f':
      nonzero();
      return integer(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
    case '%':
      nonzero();
      r = a % b;
      return integer(r != 0 && (r < 0) != (b < 0) ? r + b : r);
    case 'p':
      if (b >= 0) return integer(int_power(a, b));
      if (a == 0) raise("ZeroDivisionError", "0 cannot be raised to a negative power");
      return number(std::pow(static_cast<double>(a), static_cast<double>(b)));
    default:
      if (b == 0) raise("ZeroDivisionError", "division by zero");
      return number(static_cast<double>(a) / static_cast<double>(b));
  }
}

Val float_arithmetic(char op, double a, double b) {
  if ((op == '/' || op == 'f' || op == '%') && b == 0) {
    raise("ZeroDivisionError", "float division by zero");
  }
  switch (op) {
    case '+':
      return number(a + b);
    case '-':
      return number(a - b);
    case '*':
      return number(a * b);
    case '/':
      return number(a / b);
    case 'p':
      return number(std::pow(a, b));
    default: {
      double r = std::fmod(a, b);
      if (r != 0 && (r < 0) != (b < 0)) r += b;
      return number(op == '%' ? r : std::nearbyint((a - r) / b));
    }
  }
}

Val repeated(Heap& heap, const Val& sequence, std::int64_t times) {
  if (sequence.is(Kind::kString)) return repeat(heap, sequence, times);
  std::vector<Val> out;
  const auto& items = sequence.list().items;
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(0, times));
  if (n > 0 && items.size() > (std::size_t(1) << 32U) / n) {
    raise("MemoryError", "a list would become too long");
  }
  heap.expect(items.size() * n * sizeof(Val));
  heap.step(items.size() * n);
  for (std::size_t i = 0; i < n && !items.empty(); ++i) {
    out.insert(out.end(), items.begin(), items.end());
  }
  return list(heap, std::move(out), sequence.kind);
}

}  // namespace

std::string LoopObject::repr() const {
  return cat("<LoopContext ", index + 1, "/", items->items.size(), ">");
}

Val attribute(Heap& heap, const Val& object, const std::string& name) {
  heap.step();
  if (changes_its_object(object, name)) return unsafe(object, name);
  switch (object.kind) {
    case Kind::kUndefined:
      undefined_error(object);
    case Kind::kDict:
      if (has_method(object, name)) return method(object, name);
      if (const Val* v = object.dict().find(name)) return *v;
      break;
    case Kind::kNamespace: {
      Val* v = static_cast<NamespaceObject&>(*object.object).find(name);
      if (v != nullptr) return *v;
      break;
    }
    case Kind::kLoop:
      return loop_attribute(object, name);
    case Kind::kFunction:
      return function_attribute(object, name);
    default:
      if (object.is_range() && (name == "start" || name == "stop" || name == "step")) {
        const auto& r = static_cast<const RangeObject&>(object.list());
        return integer(name == "start" ? r.begin : name == "stop" ? r.end : r.step);
      }
      if (object.is(Kind::kTuple) && object.list().name == kGroupName) {
        if (name == "grouper") return object.list().items[0];
        if (name == "list") return object.list().items[1];
      }
      if (has_method(object, name)) return method(object, name);
  }
  return no_attribute(described(object), name);
}

Val item(Heap& heap, const Val& object, const Val& key) {
  heap.step();
  if (object.is(Kind::kUndefined)) undefined_error(object);
  if (object.is(Kind::kDict)) {
    const Val* v = key.is(Kind::kString) ? object.dict().find(key.string().text)
                                         : object.dict().find(heap, key);
    if (v != nullptr) return *v;
  } else if (key.is(Kind::kInt) || key.is(Kind::kBool)) {
    std::int64_t i = as_int(key, "index");
    if (object.is(Kind::kString)) {
      heap.step(object.string().text.size() / 64);
      const auto n = static_cast<std::int64_t>(length(object));
      if (i < 0) i += n;
      if (i < 0 || i >= n) return missing_item(object, key);
      const std::size_t begin = byte_of(object.string().text, static_cast<std::size_t>(i));
      return substring(heap, object, begin,
                       begin + decode_utf8(object.string().text, begin).length);
    }
    if (object.is(Kind::kList) || object.is(Kind::kTuple)) {
      const auto& items = object.list().items;
      if (i < 0) i += static_cast<std::int64_t>(items.size());
      if (i < 0 || i >= static_cast<std::int64_t>(items.size())) return missing_item(object, key);
      return items[static_cast<std::size_t>(i)];
    }
  }
  if (key.is(Kind::kString)) return attribute(heap, object, key.string().text);
  return missing_item(object, key);
}

Val slice(Heap& heap, const Val& object, const Val* start, const Val* stop, const Val* step_value) {
  const bool is_string = object.is(Kind::kString);
  if (object.is(Kind::kUndefined)) undefined_error(object);
  if (!is_string && !object.is(Kind::kList) && !object.is(Kind::kTuple)) {
    raise("TypeError", cat("'", type_name(object), "' object cannot be sliced"));
  }
  const auto given = [](const Val* v) {
    if (v != nullptr && v->is(Kind::kUndefined)) {
      raise("TypeError", "slice indices must be integers or None");
    }
    return v != nullptr && !v->is(Kind::kNone);
  };
  const std::int64_t step = given(step_value) ? as_int(*step_value, "slice step") : 1;
  if (step == 0) raise("ValueError", "slice step cannot be zero");
  const auto n = static_cast<std::int64_t>(length(object));
  const auto bound = [&](const Val* v, std::int64_t otherwise) {
    if (!given(v)) return otherwise;
    std::int64_t i = as_int(*v, "slice bound");
    if (i < 0) i = i < -n ? -1 : i + n;
    if (i < 0) return step > 0 ? std::int64_t{0} : std::int64_t{-1};
    return std::min(i, step > 0 ? n : n - 1);
  };
  const std::int64_t first = bound(start, step > 0 ? 0 : n - 1);
  const std::int64_t last = bound(stop, step > 0 ? n : -1);
  heap.step(static_cast<std::size_t>(n) / 8);
  if (is_string && step == 1) {
    if (first >= last) return substring(heap, object, 0, 0);
    const std::string& text = object.string().text;
    const std::size_t begin = byte_of(text, static_cast<std::size_t>(first));
    const std::size_t end = last == n ? text.size() : byte_of(text, static_cast<std::size_t>(last));
    return substring(heap, object, begin, end);
  }
  const auto all = elements(heap, object);
  std::vector<Val> out;
  for (std::int64_t i = first; step > 0 ? i < last : i > last;) {
    heap.step();
    out.push_back(all->items[static_cast<std::size_t>(i)]);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (is_string) return join(heap, plain_string(&heap, ""), out);
  if (object.is_range()) {
    const auto& r = static_cast<const RangeObject&>(object.list());
    return range(heap, std::move(out), r.begin + first * r.step, r.begin + last * r.step,
                 r.step * step);
  }
  Val v = list(heap, std::move(out), object.kind);
  v.source = object.source;
  return v;
}

Val negative(const Val& v) {
  if (v.is(Kind::kFloat)) return number(-v.number);
  if (v.is(Kind::kInt) || v.is(Kind::kBool)) return int_arithmetic('-', 0, as_int(v, ""));
  if (v.is(Kind::kUndefined)) undefined_error(v);
  raise("TypeError", cat("bad operand type for unary -: '", type_name(v), "'"));
}

Val binary(Heap& heap, char op, const Val& a, const Val& b) {
  heap.step();
  const std::string_view name = op == 'f' ? "//" : op == 'p' ? "**" : std::string_view(&op, 1);
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) {
      return float_arithmetic(op, as_double(a), as_double(b));
    }
    return int_arithmetic(op, as_int(a, name), as_int(b, name));
  }
  const auto repeats = [](const Val& v) {
    return v.is(Kind::kString) || (v.is(Kind::kList) && !v.is_range()) || v.is(Kind::kTuple);
  };
  if (op == '%' && a.is(Kind::kString)) return format_percent(heap, a, b);
  if (op == '*' && repeats(a) && (b.is(Kind::kInt) || b.is(Kind::kBool))) {
    return repeated(heap, a, as_int(b, name));
  }
  if (op == '*' && repeats(b) && (a.is(Kind::kInt) || a.is(Kind::kBool))) {
    return repeated(heap, b, as_int(a, name));
  }
  if (op == '+' && a.kind == b.kind && a.is(Kind::kString)) return concat(heap, a, b);
  if (op == '+' && a.kind == b.kind && repeats(a) && repeats(b)) {
    std::vector<Val> out = a.list().items;
    heap.step(out.size() + b.list().items.size());
    out.insert(out.end(), b.list().items.begin(), b.list().items.end());
    return list(heap, std::move(out), a.kind);
  }
  if (op == '+' && a.is(Kind::kString) && !b.is(Kind::kUndefined)) {
    raise("TypeError", cat("can only concatenate str (not \"", type_name(b), "\") to str"));
  }
  bad_operands(name, a, b);
}

}  // namespace glmtune::text::jinja
