// The expression half of the evaluator.
#include <algorithm>

#include "base/cat.h"
#include "text/template_evaluator.h"

namespace glmtune::text::jinja {
namespace {

// Whether Jinja writes the value into the code that it makes of a template.
bool has_literal(Heap& heap, const Val& v) {
  heap.step();
  const auto all = [&](const auto& items) {
    return std::all_of(items.begin(), items.end(),
                       [&](const Val& item) { return has_literal(heap, item); });
  };
  if (v.is(Kind::kList) || v.is(Kind::kTuple)) return all(v.list().items);
  if (v.is(Kind::kDict)) {
    const auto& items = v.dict().items;
    return std::all_of(items.begin(), items.end(), [&](const auto& pair) {
      return has_literal(heap, pair.first) && has_literal(heap, pair.second);
    });
  }
  return v.is(Kind::kNone) || v.is_number() || v.is(Kind::kString);
}

}  // namespace

Val Evaluator::look_up(int symbol) {
  const std::string& name_of = program_.symbols.names[static_cast<std::size_t>(symbol)];
  const auto missing = [&] {
    return undefined(std::string(1, '\'').append(name_of).append("' is undefined"));
  };
  std::size_t steps = 0;
  for (const Scope* s = scope_.get(); s != nullptr; s = s->parent.get()) {
    for (const auto& [name, v] : s->variables) {
      if (name != symbol) continue;
      if (v.is(Kind::kUndefined) && !v.object) return missing();
      return v;
    }
    steps += s->variables.size() / 8;
  }
  heap.step(steps);
  Val function = builtin_function(name_of);
  return function.is(Kind::kNone) ? missing() : function;
}

// Jinja takes an expression of constants apart before the render, by other rules for slices, and
// keeps the result where it has a literal or is printed. What raises is left for the render.
std::optional<Val> Evaluator::folded(const Expr& e, bool printed) {
  if (!e.constant || !e.sliced || folding_) return std::nullopt;
  std::optional<Val> v;
  folding_ = true;
  try {
    v = evaluate(e);
  } catch (const Raise&) {
  }
  folding_ = false;
  if (v && !printed && !has_literal(heap, *v)) v.reset();
  return v;
}

Val Evaluator::evaluate(const Expr& e) {
  Depth depth(*this);
  if (auto constant = folded(e, false)) return *constant;
  line_ = e.line;
  const auto child = [&](std::size_t i) { return evaluate(*e.children[i]); };
  switch (e.kind) {
    case ExprKind::kConstant: {
      Val v = e.value;
      v.source.message = current_message_;
      return v;
    }
    case ExprKind::kName:
      if (folding_) raise("TemplateRuntimeError", "a name is not constant");
      return look_up(e.symbol);
    case ExprKind::kList:
      return list(heap, evaluate_all(e.children, 0));
    case ExprKind::kTuple:
      return list(heap, evaluate_all(e.children, 0), Kind::kTuple);
    case ExprKind::kDict:
      return evaluate_dict(e);
    case ExprKind::kAttribute: {
      const Val object = child(0);
      line_ = e.line;
      return attribute(heap, object, e.name);
    }
    case ExprKind::kItem: {
      const Val object = child(0);
      const Val key = child(1);
      line_ = e.line;
      return item(heap, object, key);
    }
    case ExprKind::kSlice:
      return evaluate_slice(e);
    case ExprKind::kCall:
      return evaluate_call(e);
    case ExprKind::kFilter:
    case ExprKind::kTest:
      return evaluate_filter(e);
    case ExprKind::kNot:
      return boolean(!truth(child(0)));
    case ExprKind::kNegative:
      return negative(child(0));
    case ExprKind::kPositive: {
      Val v = child(0);
      if (!v.is_number()) negative(v);  // the error is the same
      return v;
    }
    case ExprKind::kBinary: {
      const Val a = child(0);
      const Val b = child(1);
      line_ = e.line;
      return binary(heap, e.op, a, b);
    }
    case ExprKind::kConcat: {
      TextBuilder text(heap);
      for (std::size_t i = 0; i < e.children.size(); ++i) text.append_text(child(i));
      return text.take();
    }
    case ExprKind::kCompare:
      return evaluate_compare(e);
    case ExprKind::kAnd: {
      Val v = child(0);
      return truth(v) ? child(1) : v;
    }
    case ExprKind::kOr: {
      Val v = child(0);
      return truth(v) ? v : child(1);
    }
    case ExprKind::kConditional:
      if (truth(child(0))) return child(1);
      if (e.children[2]) return child(2);
      if (folding_) raise("TemplateRuntimeError", "a condition without else is not folded");
      return undefined(
          "the inline if-expression evaluated to false and no else section was defined");
    case ExprKind::kSpread:
    case ExprKind::kSpreadNamed:
      break;
  }
  raise("TemplateSyntaxError", "* and ** are only for the arguments of calls");
}

Val Evaluator::evaluate_compare(const Expr& e) {
  Val left = evaluate(*e.children[0]);
  for (std::size_t i = 0; i < e.names.size(); ++i) {
    Val right = evaluate(*e.children[i + 1]);
    line_ = e.line;
    const std::string& op = e.names[i];
    bool holds = false;
    if (op == "==") {
      holds = equals(heap, left, right);
    } else if (op == "!=") {
      holds = !equals(heap, left, right);
    } else if (op == "in") {
      holds = contains(heap, left, right);
    } else if (op == "not in") {
      holds = !contains(heap, left, right);
    } else {
      const int order = compare(heap, left, right, op);
      holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return boolean(false);
    left = std::move(right);
  }
  return boolean(true);
}

std::vector<Val> Evaluator::evaluate_all(const std::vector<ExprPtr>& expressions,
                                         std::size_t from) {
  std::vector<Val> values;
  values.reserve(expressions.size());
  for (std::size_t i = from; i < expressions.size(); ++i) {
    values.push_back(evaluate(*expressions[i]));
  }
  return values;
}

Val Evaluator::evaluate_dict(const Expr& e) {
  DictObject::Items items;
  for (std::size_t i = 0; i + 1 < e.children.size(); i += 2) {
    Val key = evaluate(*e.children[i]);
    require_hashable(heap, key);
    Val value = evaluate(*e.children[i + 1]);
    bool known = false;
    for (auto& [k, v] : items) {
      if (!equals(heap, k, key)) continue;
      v = value;
      known = true;
    }
    if (!known) items.emplace_back(std::move(key), std::move(value));
  }
  return dict(heap, std::move(items));
}

Val Evaluator::evaluate_slice(const Expr& e) {
  const Val object = evaluate(*e.children[0]);
  Val bounds[3];
  const Val* given[3] = {nullptr, nullptr, nullptr};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!e.children[i + 1]) continue;
    bounds[i] = evaluate(*e.children[i + 1]);
    given[i] = &bounds[i];
  }
  line_ = e.line;
  if (!folding_) return slice(heap, object, given[0], given[1], given[2]);
  try {
    return slice(heap, object, given[0], given[1], given[2]);
  } catch (const Raise& error) {
    if (error.kind != "TypeError") throw;
    return undefined(cat("'", type_name(object), "' object cannot be sliced"));
  }
}

Args Evaluator::evaluate_arguments(const Expr& e) {
  Args args;
  decltype(args.named) spread;  // come after the keywords
  for (std::size_t i = 1; i < e.children.size(); ++i) {
    const Expr& argument = *e.children[i];
    if (argument.kind == ExprKind::kSpread) {
      const auto all = elements(heap, evaluate(*argument.children[0]));
      heap.step(all->items.size());
      args.positional.insert(args.positional.end(), all->items.begin(), all->items.end());
    } else if (argument.kind == ExprKind::kSpreadNamed) {
      const Val all = evaluate(*argument.children[0]);
      if (!all.is(Kind::kDict)) raise("TypeError", "argument after ** must be a mapping");
      all.dict().read_all();
      for (const auto& [key, value] : all.dict().items) {
        if (!key.is(Kind::kString)) raise("TypeError", "keywords must be strings");
        spread.emplace_back(key.string().text, value);
      }
    } else {
      args.positional.push_back(evaluate(argument));
    }
  }
  for (const auto& [name, expr] : e.keywords) args.named.emplace_back(name, evaluate(*expr));
  args.named.insert(args.named.end(), spread.begin(), spread.end());
  return args;
}

Val Evaluator::evaluate_call(const Expr& e) {
  if (folding_) raise("TemplateRuntimeError", "a call is not constant");
  const Val callee = evaluate(*e.children[0]);
  Args args = evaluate_arguments(e);
  line_ = e.line;
  Val result = call(callee, args);
  line_ = e.line;
  return result;
}

Val Evaluator::call(const Val& callee, Args& args) {
  switch (callee.kind) {
    case Kind::kMacro: {
      // The value may be assigned to another name while it runs.
      const auto macro = std::static_pointer_cast<MacroObject>(callee.object);
      return call_macro(*macro, args);
    }
    case Kind::kFunction: {
      const auto function = std::static_pointer_cast<FunctionObject>(callee.object);
      return call_function(*this, *function, args);
    }
    case Kind::kMethod: {
      const auto method = std::static_pointer_cast<MethodObject>(callee.object);
      return call_method(heap, *method, args);
    }
    case Kind::kLoop: {
      const auto loop = std::static_pointer_cast<LoopObject>(callee.object);
      if (!loop->recursive || loop->statement == nullptr || args.positional.size() != 1) {
        raise("TypeError", "loop(...) needs a running recursive loop and one argument");
      }
      TextBuilder text(heap);
      TextBuilder* outer = std::exchange(out_, &text);
      {
        Inside inside(*this, loop->scope);
        run_for(*loop->statement, args.positional[0], loop->depth + 1);
      }
      out_ = outer;
      return text.take();
    }
    case Kind::kUndefined:
      undefined_error(callee);
    default:
      raise("TypeError", cat("'", type_name(callee), "' object is not callable"));
  }
}

Val Evaluator::evaluate_filter(const Expr& e) {
  Val input;
  if (e.children[0]) {
    input = evaluate(*e.children[0]);
  } else if (block_text_ != nullptr) {
    input = *block_text_;
  }
  const Args args = evaluate_arguments(e);
  line_ = e.line;
  if (e.kind == ExprKind::kTest) return boolean(apply_test(*this, e.name, input, args));
  return apply_filter(*this, e.name, input, args);
}

}  // namespace glmtune::text::jinja
