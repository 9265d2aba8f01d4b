// Which scope a name belongs to, and which expressions are constant.
#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "text/template_ast.h"
#include "text/template_lexer.h"

namespace glmtune::text::jinja {
namespace {

// Filters that see the render's context.
constexpr std::array<std::string_view, 6> kNeverFolded = {"map",        "random", "reject",
                                                          "rejectattr", "select", "selectattr"};

bool is_constant(const ExprPtr& e) {
  return !e || e->constant;
}

// Whether what is always evaluated of an expression is constant, its parts being known.
bool may_be_constant(const Expr& e) {
  switch (e.kind) {
    case ExprKind::kName:
    case ExprKind::kCall:
      return false;
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return is_constant(e.children[0]);
    case ExprKind::kConditional:
      return is_constant(e.children[0]) &&
             (is_constant(e.children[1]) || is_constant(e.children[2]));
    case ExprKind::kCompare:
      return is_constant(e.children[0]) && is_constant(e.children[1]);
    case ExprKind::kFilter:
      if (!e.children[0] ||
          std::find(kNeverFolded.begin(), kNeverFolded.end(), e.name) != kNeverFolded.end())
        return false;
      break;
    default:
      break;
  }
  return std::all_of(e.children.begin(), e.children.end(), is_constant) &&
         std::all_of(e.keywords.begin(), e.keywords.end(),
                     [](const auto& keyword) { return is_constant(keyword.second); });
}

// The names that an expression reads. Loops instead of calling itself: chains of operators and
// filters make trees deeper than a stack should follow.
std::vector<int> analyze(Expr* root) {
  std::vector<int> names;
  std::vector<Expr*> all;
  const auto add = [&](const ExprPtr& e) {
    if (e) all.push_back(e.get());
  };
  if (root != nullptr) all.push_back(root);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Expr& e = *all[i];
    if (e.kind == ExprKind::kName) names.push_back(e.symbol);
    for (const ExprPtr& child : e.children) add(child);
    for (const auto& [name, value] : e.keywords) add(value);
  }
  for (std::size_t i = all.size(); i-- > 0;) {  // what is inside comes later in `all`
    Expr& e = *all[i];
    e.constant = may_be_constant(e);
    const auto sliced = [](const ExprPtr& part) { return part && part->sliced; };
    e.sliced = e.kind == ExprKind::kSlice ||
               std::any_of(e.children.begin(), e.children.end(), sliced) ||
               std::any_of(e.keywords.begin(), e.keywords.end(),
                           [&](const auto& keyword) { return sliced(keyword.second); });
  }
  return names;
}

// What happens first to each of caller, varargs and kwargs in a piece of a template, read in the
// order of Jinja's syntax tree: targets before values, whatever the scopes.
class SpecialNames {
 public:
  explicit SpecialNames(const Symbols& symbols)
      : symbols_{symbols.caller, symbols.varargs, symbols.kwargs} {}

  void read(Expr* e) {
    for (const int symbol : analyze(e)) note(symbol, kRead);
  }
  void assign(const Target& t) {
    if (t.attribute.empty() && t.elements.empty()) note(t.symbol, kAssigned);
    for (const Target& element : t.elements) assign(element);
  }
  // Settles on the way which special arguments the macros in it take.
  void body(Body& statements) {
    for (auto& s : statements) statement(*s);
  }

 private:
  enum Use : std::uint8_t { kNone, kRead, kAssigned };

  void note(int symbol, Use use) {
    for (std::size_t i = 0; i < symbols_.size(); ++i) {
      if (symbols_[i] == symbol && first_[i] == kNone) first_[i] = use;
    }
  }
  void statement(Stmt& s);

  std::array<int, 3> symbols_;
  std::array<Use, 3> first_{};
};

void SpecialNames::statement(Stmt& s) {
  assign(s.target);
  for (const Parameter& p : s.parameters) note(p.symbol, kAssigned);
  for (const auto& [target, value] : s.assignments) assign(target);
  for (const Parameter& p : s.parameters) read(p.otherwise.get());
  for (const auto& [target, value] : s.assignments) read(value.get());
  if (s.kind == StmtKind::kSetBlock) read(s.filter.get());
  if (s.kind != StmtKind::kFilter) read(s.expr.get());
  SpecialNames inside = *this;
  inside.first_.fill(kNone);
  inside.body(s.body);
  for (std::size_t i = 0; i < symbols_.size(); ++i) note(symbols_[i], inside.first_[i]);
  const auto takes = [&](std::size_t i) {
    return inside.first_[i] == kRead &&
           (i == 0 || std::none_of(s.parameters.begin(), s.parameters.end(),
                                   [&](const auto& p) { return p.symbol == symbols_[i]; }));
  };
  s.uses_caller = takes(0);
  s.uses_varargs = takes(1);
  s.uses_kwargs = takes(2);
  if ((s.kind == StmtKind::kMacro || s.kind == StmtKind::kCall) && s.uses_caller) {
    for (const Parameter& p : s.parameters) {
      if (p.symbol == symbols_[0] && !p.otherwise) {
        throw SyntaxError{s.line,
                          "the parameter \"caller\" of a macro that reads it needs a default"};
      }
    }
  }
  if (s.kind == StmtKind::kFilter) read(s.expr.get());
  body(s.otherwise);
  if (s.kind == StmtKind::kFor) read(s.filter.get());
}

// One scope. It is read whole before the scopes inside it, as Jinja does.
class Frame {
 public:
  Frame(Frame* around, const Symbols& symbols) : around_(around), symbols_(symbols) {}

  void parameter(const Target& t) {
    if (t.elements.empty()) {
      mention(t.symbol);
      own_.insert(t.symbol);
    }
    for (const Target& element : t.elements) parameter(element);
  }
  void parameter(int symbol) { own_.insert(symbol); }
  void read(Expr* e) {
    for (const int symbol : analyze(e)) read_name(symbol);
  }
  void assign(const Target& t) {
    if (!t.attribute.empty()) {
      read_name(t.symbol);
    } else if (t.elements.empty()) {
      assign_name(t.symbol);
    }
    for (const Target& element : t.elements) assign(element);
  }
  void body(Body& statements) {
    for (auto& s : statements) statement(*s);
  }
  // Goes into the scopes inside; the names to begin with.
  std::vector<int> finish();

 private:
  void statement(Stmt& s);
  void read_name(int symbol) {
    mention(symbol);
    if (!known(symbol)) own_.insert(symbol);
  }
  void assign_name(int symbol) {
    mention(symbol);
    const bool fresh = !known(symbol);
    own_.insert(symbol);
    if (fresh && branches_ == 0) assigned_first_.insert(symbol);
  }
  bool known(int symbol) const {
    for (const Frame* f = this; f != nullptr; f = f->around_) {
      if (f->own_.count(symbol) > 0) return true;
    }
    return false;
  }
  void mention(int symbol) {
    for (Frame* f = around_; f != nullptr; f = f->around_) f->inside_.insert(symbol);
  }
  void scopes_of(Stmt& s);

  Frame* around_;
  const Symbols& symbols_;
  std::set<int> own_;             // names that it reads or assigns to, known to no scope around
  std::set<int> assigned_first_;  // of those
  std::set<int> inside_;          // names that scopes inside mention
  std::vector<Stmt*> with_scopes_;
  int branches_ = 0;  // of `if` around the current place
};

void Frame::statement(Stmt& s) {
  switch (s.kind) {
    case StmtKind::kIf:
      read(s.expr.get());
      ++branches_;
      body(s.body);
      body(s.otherwise);
      --branches_;
      return;
    case StmtKind::kSet:
      read(s.expr.get());
      assign(s.target);
      return;
    case StmtKind::kSetBlock:
      assign(s.target);
      analyze(s.filter.get());
      break;
    case StmtKind::kMacro:
      assign_name(s.symbol);
      break;
    case StmtKind::kWith:
      for (const auto& [target, value] : s.assignments) read(value.get());
      break;
    case StmtKind::kText:
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      return;
    case StmtKind::kOutput:
      read(s.expr.get());
      return;
    case StmtKind::kFor:
    case StmtKind::kCall:
    case StmtKind::kFilter:
    case StmtKind::kGeneration:
      read(s.expr.get());
      break;
  }
  with_scopes_.push_back(&s);
}

void Frame::scopes_of(Stmt& s) {
  if (s.kind == StmtKind::kFor) {
    Frame test(this, symbols_);
    test.parameter(s.target);
    test.read(s.filter.get());
    Frame otherwise(this, symbols_);
    otherwise.body(s.otherwise);
    s.unset_otherwise = otherwise.finish();
  }
  Frame inner(this, symbols_);
  if (s.kind == StmtKind::kFor) inner.parameter(s.target);
  for (const Parameter& p : s.parameters) inner.parameter(p.symbol);
  for (const Parameter& p : s.parameters) inner.read(p.otherwise.get());
  for (const auto& [target, value] : s.assignments) inner.assign(target);
  inner.body(s.body);
  s.unset = inner.finish();
}

std::vector<int> Frame::finish() {
  for (Stmt* s : with_scopes_) scopes_of(*s);
  std::vector<int> unset;
  std::set_intersection(assigned_first_.begin(), assigned_first_.end(), inside_.begin(),
                        inside_.end(), std::back_inserter(unset));
  return unset;
}

}  // namespace

void analyze_scopes(Program& program) {
  SpecialNames(program.symbols).body(program.body);
  Frame outermost(nullptr, program.symbols);
  outermost.body(program.body);
  program.unset = outermost.finish();
}

}  // namespace glmtune::text::jinja
