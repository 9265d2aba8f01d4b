#include "text/template_evaluator.h"

#include <algorithm>

#include "base/cat.h"

namespace glmtune::text::jinja {
namespace {

// Statements and expressions inside each other, macros and recursive loops included; within what
// an ordinary thread's stack holds.
constexpr int kMaxDepth = 800;

bool is_message(const Val& v) {
  return v.is(Kind::kDict) && v.source.origin == Origin::kData && v.source.field == Field::kNone;
}

}  // namespace

void Scope::set(int symbol, Val v) {
  for (auto& [s, value] : variables) {
    if (s == symbol) {
      value = std::move(v);
      return;
    }
  }
  variables.emplace_back(symbol, std::move(v));
}

std::string MacroObject::repr() const {
  if (statement->kind == StmtKind::kCall) return "<Macro anonymous>";
  return cat("<Macro '", statement->name, "'>");
}

Evaluator::Depth::Depth(Evaluator& e) : evaluator(e) {
  if (++e.depth_ > kMaxDepth) {
    --e.depth_;
    raise("RecursionError", "the template calls itself too deeply");
  }
  e.heap.step();
}

Evaluator::Evaluator(const Program& program, Heap& h, const RenderOptions& o)
    : Runtime(h, o), program_(program), top_(h) {}

void Evaluator::run(const io::Value& context) {
  auto outermost = scope_within(nullptr);
  for (auto& [name, value] : context_values(heap, context)) {
    if (name == "messages") messages_ = value;
    const auto symbol = program_.symbols.ids.find(name);
    if (symbol != program_.symbols.ids.end()) outermost->set(symbol->second, std::move(value));
  }
  scope_ = scope_within(std::move(outermost), program_.unset);
  run_body(program_.body);
}

std::vector<UnreadField> Evaluator::unread() const {
  std::vector<UnreadField> out;
  if (!messages_.is(Kind::kList)) return out;
  for (const Val& m : messages_.list().items) {
    if (!is_message(m)) continue;
    const DictObject& fields = m.dict();
    for (std::size_t i = 0; i < fields.items.size(); ++i) {
      if (!fields.reads->at(i))
        out.push_back({m.source.message, fields.items[i].first.string().text});
    }
  }
  return out;
}

void Evaluator::write(const Val& v) {
  out_->attribute_to(current_message_);
  out_->append_text(v);
}

Evaluator::Flow Evaluator::run_body(const Body& body) {
  Depth depth(*this);
  for (const auto& s : body) {
    const Flow flow = run_statement(*s);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_statement(const Stmt& s) {
  heap.step();
  line_ = s.line;
  switch (s.kind) {
    case StmtKind::kText:
      write(s.value);
      break;
    case StmtKind::kOutput:
      if (const auto constant = folded(*s.expr, true)) {
        write(*constant);
      } else {
        write(evaluate(*s.expr));
      }
      break;
    case StmtKind::kIf:
      return run_if(s);
    case StmtKind::kFor:
      run_for(s, evaluate(*s.expr), 0);
      break;
    case StmtKind::kSet:
      assign(s.target, evaluate(*s.expr));
      break;
    case StmtKind::kSetBlock:
    case StmtKind::kFilter: {
      Val text = capture(s);
      const Expr* filter = s.kind == StmtKind::kFilter ? s.expr.get() : s.filter.get();
      if (filter != nullptr) {
        const Val* outer = std::exchange(block_text_, &text);
        Val filtered = evaluate(*filter);
        block_text_ = outer;
        text = std::move(filtered);
      }
      if (s.kind == StmtKind::kFilter) {
        write(text);
      } else {
        assign(s.target, std::move(text));
      }
      break;
    }
    case StmtKind::kMacro:
      scope_->set(s.symbol, make_macro(s));
      break;
    case StmtKind::kCall:
      run_call_block(s);
      break;
    case StmtKind::kWith: {
      auto inner = scope_within(scope_, s.unset);
      for (const auto& [target, expr] : s.assignments) {
        Val v = evaluate(*expr);
        Inside inside(*this, inner);
        assign(target, std::move(v));
      }
      Inside inside(*this, inner);
      return run_body(s.body);
    }
    case StmtKind::kGeneration:
      run_generation(s);
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_if(const Stmt& s) {
  const Stmt* branch = &s;
  while (!truth(evaluate(*branch->expr))) {
    const Body& otherwise = branch->otherwise;
    if (otherwise.size() != 1 || otherwise[0]->kind != StmtKind::kIf) return run_body(otherwise);
    branch = otherwise[0].get();
    line_ = branch->line;
  }
  return run_body(branch->body);
}

std::shared_ptr<const ListObject> Evaluator::chosen(const Stmt& s,
                                                    std::shared_ptr<const ListObject> items) {
  if (!s.filter) return items;
  std::vector<Val> kept;
  for (const Val& item : items->items) {
    Inside inside(*this, scope_within(scope_));
    assign(s.target, item);
    if (truth(evaluate(*s.filter))) kept.push_back(item);
  }
  return std::make_shared<ListObject>(&heap, std::move(kept));
}

void Evaluator::run_for(const Stmt& s, const Val& iterable, int depth) {
  auto loop = std::make_shared<LoopObject>();
  loop->items = chosen(s, elements(heap, iterable));
  loop->depth = depth;
  loop->recursive = s.recursive;
  loop->statement = &s;
  loop->scope = scope_;
  Val loop_value;
  loop_value.kind = Kind::kLoop;
  loop_value.object = loop;

  const std::int32_t outer_message = current_message_;
  std::shared_ptr<Scope> scope;
  for (; loop->index < loop->items->items.size(); ++loop->index) {
    const Val& item = loop->items->items[loop->index];
    if (scope && scope.use_count() == 1 && !scope->remembered) {
      scope->variables.clear();
      for (const int symbol : s.unset) scope->set(symbol, Val());
    } else {
      scope = scope_within(scope_, s.unset);
    }
    if (is_message(item)) current_message_ = item.source.message;
    Inside inside(*this, scope);
    scope->set(program_.symbols.loop, loop_value);
    assign(s.target, item);
    if (run_body(s.body) == Flow::kBreak) break;
  }
  current_message_ = outer_message;
  const bool empty = loop->items->items.empty();
  loop->statement = nullptr;
  loop->scope = nullptr;
  loop->changed.clear();
  if (empty && !s.otherwise.empty()) {
    Inside inside(*this, scope_within(scope_, s.unset_otherwise));
    run_body(s.otherwise);
  }
}

void Evaluator::run_generation(const Stmt& s) {
  if (out_ != &top_) {
    raise("TemplateRuntimeError",
          "a generation block inside a macro, a call or a set block has no place in the text");
  }
  const std::size_t begin = out_->size();
  {
    Inside inside(*this, scope_within(scope_, s.unset));
    run_body(s.body);
  }
  generation_.emplace_back(begin, out_->size());
}

void Evaluator::run_call_block(const Stmt& s) {
  const Val callee = evaluate(*s.expr->children[0]);
  Args args = evaluate_arguments(*s.expr);
  args.named.emplace_back("caller", make_macro(s));
  line_ = s.line;
  write(call(callee, args));
}

void Evaluator::assign(const Target& target, Val v) {
  if (target.elements.empty()) {
    if (target.attribute.empty()) return scope_->set(target.symbol, std::move(v));
    const Val object = look_up(target.symbol);
    if (!object.is(Kind::kNamespace)) {
      raise("TemplateRuntimeError",
            cat("cannot assign attribute on non-namespace object '", target.name, "'"));
    }
    auto& ns = static_cast<NamespaceObject&>(*object.object);
    if (Val* slot = ns.find(target.attribute)) {
      *slot = std::move(v);
    } else {
      heap.step(ns.items.size());
      ns.items.emplace_back(target.attribute, std::move(v));
    }
    return;
  }
  const auto items = elements(heap, v);
  if (items->items.size() != target.elements.size()) {
    raise("ValueError",
          cat("cannot unpack ", items->items.size(), " values into ", target.elements.size()));
  }
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    assign(target.elements[i], items->items[i]);
  }
}

Val Evaluator::capture(const Stmt& s) {
  TextBuilder text(heap);
  TextBuilder* outer = std::exchange(out_, &text);
  {
    Inside inside(*this, scope_within(scope_, s.unset));
    run_body(s.body);
  }
  out_ = outer;
  return text.take();
}

Val Evaluator::make_macro(const Stmt& s) {
  auto macro = std::make_shared<MacroObject>();
  macro->statement = &s;
  macro->scope = scope_;
  if (!scope_->remembered) {
    scope_->remembered = true;
    heap.keep(scope_);
  }
  Val v;
  v.kind = Kind::kMacro;
  v.object = std::move(macro);
  return v;
}

Val Evaluator::call_macro(const MacroObject& macro, Args& args) {
  const Stmt& s = *macro.statement;
  auto scope = scope_within(macro.scope, s.unset);
  const auto take = [&](const std::string& name) {
    std::optional<Val> v;
    const auto at = std::find_if(args.named.begin(), args.named.end(),
                                 [&](const auto& a) { return a.first == name; });
    if (at != args.named.end()) {
      v = std::move(at->second);
      args.named.erase(at);
    }
    return v;
  };
  const std::size_t given = args.positional.size();
  const std::size_t count = s.parameters.size();
  bool caller_is_parameter = false, caller_is_given = false;
  std::vector<const Parameter*> left;  // their defaults see all that was given
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& p = s.parameters[i];
    const bool caller = p.symbol == program_.symbols.caller;
    caller_is_parameter |= caller;
    caller_is_given |= caller && i < given;
    // A keyword beside a positional argument stays among the keywords.
    auto v = i < given ? args.positional[i] : take(p.name);
    if (!v) left.push_back(&p);
    scope->set(p.symbol, std::move(v).value_or(Val()));
  }
  if (s.uses_caller && !caller_is_parameter) {
    auto caller = take("caller");
    const bool none_given = !caller || caller->is(Kind::kNone);
    scope->set(program_.symbols.caller, none_given ? undefined("No caller defined") : *caller);
  } else if (s.uses_caller && caller_is_given && given < count) {
    raise("TypeError", cat("macro '", s.name, "' got its caller twice"));
  }
  if (s.uses_kwargs) {
    DictObject::Items items;
    for (auto& [name, v] : args.named) {
      items.emplace_back(plain_string(&heap, name), std::move(v));
    }
    scope->set(program_.symbols.kwargs, dict(heap, std::move(items)));
  } else if (!args.named.empty()) {
    raise("TypeError",
          cat("macro '", s.name, "' takes no keyword argument '", args.named[0].first, "'"));
  }
  std::vector<Val> more;
  if (given > count) {
    more.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(count),
                args.positional.end());
  }
  if (s.uses_varargs) {
    scope->set(program_.symbols.varargs, list(heap, std::move(more), Kind::kTuple));
  } else if (!more.empty()) {
    raise("TypeError", cat("macro '", s.name, "' takes not more than ", count, " argument(s)"));
  }
  for (const Parameter* p : left) {
    Inside inside(*this, scope);
    scope->set(p->symbol, p->otherwise
                              ? evaluate(*p->otherwise)
                              : undefined(cat("parameter '", p->name, "' was not provided")));
  }
  TextBuilder text(heap);
  TextBuilder* outer = std::exchange(out_, &text);
  {
    Inside inside(*this, std::move(scope));
    run_body(s.body);
  }
  out_ = outer;
  return text.take();
}

}  // namespace glmtune::text::jinja
