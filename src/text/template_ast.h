#pragma once
// The parsed template.
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/template_value.h"

namespace glmtune::text::jinja {

enum class ExprKind {
  kConstant,     // value
  kName,         // symbol
  kList,         // children
  kTuple,        // children
  kDict,         // children: key, value, key, value ...
  kAttribute,    // children[0].name
  kItem,         // children[0][children[1]]
  kSlice,        // children[0][children[1]:children[2]:children[3]], absent ones null
  kCall,         // children[0](children[1...], keywords)
  kFilter,       // children[0] | name(children[1...], keywords); null child 0 inside filter blocks
  kTest,         // children[0] is name(children[1...], keywords)
  kSpread,       // *children[0] in a call
  kSpreadNamed,  // **children[0] in a call
  kNot,
  kNegative,
  kPositive,
  kBinary,   // op: one of + - * / % f (floor division) p (power)
  kConcat,   // children joined by ~
  kCompare,  // children[0] names[0] children[1] names[1] ...
  kAnd,
  kOr,
  kConditional,  // children: condition, then, otherwise (null: undefined)
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 1;
  std::string name;
  int symbol = -1;
  char op = 0;
  // Whether its value may need constants only; a slice in it. See analyze_scopes().
  bool constant = false, sliced = false;
  Val value;
  std::vector<std::string> names;
  std::vector<ExprPtr> children;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
};

enum class StmtKind {
  kText,        // value
  kOutput,      // expr
  kIf,          // expr, body, otherwise
  kFor,         // target, expr, filter (may be null), body, otherwise
  kSet,         // target, expr
  kSetBlock,    // target, body, filter (applied to the text; may be null)
  kMacro,       // symbol, parameters, body
  kCall,        // expr (a call), parameters, body: the caller
  kFilter,      // expr (a filter chain over a null input), body
  kWith,        // assignments, body
  kGeneration,  // body
  kBreak,
  kContinue,
};

// What set, for and with assign to: a name, a namespace's attribute, or several of them.
struct Target {
  int symbol = -1;
  std::string name;
  std::string attribute;         // of the namespace `symbol`
  std::vector<Target> elements;  // unpacking
};
struct Parameter {
  int symbol;
  std::string name;
  ExprPtr otherwise;  // default, or null
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;
struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 1;
  Val value;
  Target target;
  ExprPtr expr, filter;
  Body body, otherwise;
  bool recursive = false;  // a for loop that may call itself
  int symbol = -1;
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  std::vector<int> unset, unset_otherwise;  // of the scopes of the two bodies: analyze_scopes()
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;  // a macro: analyze_scopes()
};

// Names are numbered, so that scopes compare integers.
struct Symbols {
  int id(const std::string& name);
  std::vector<std::string> names;
  std::unordered_map<std::string, int> ids;
  int loop = -1, caller = -1, varargs = -1, kwargs = -1;  // set by parse()
};

struct Program {
  Body body;
  Symbols symbols;
  std::set<std::string, std::less<>> mentioned;  // names, attributes and strings
  bool has_generation = false;
  std::vector<int> unset;  // of the outermost scope: analyze_scopes()
};

// What Jinja's compiler settles before anything runs.
// - Names that a scope has from its start without a value (`unset`): a name belongs to a scope that
//   assigns to it outside of any `if` before it reads it, unless a scope around it reads or assigns
//   it too; until then it is undefined, whatever the render's context says. Only scopes within, a
//   macro that is called early or the body of an earlier loop, can see that; others are not listed.
// - Which of the special arguments a macro takes: those that its body reads before it assigns to
//   them, and that are no parameters of its own.
// - Which expressions are folded (`constant`; only where `sliced` does folding make a difference).
// Throws SyntaxError where a macro reads a parameter "caller" that has no default.
void analyze_scopes(Program& program);

Program parse(std::string_view source);  // throws SyntaxError

}  // namespace glmtune::text::jinja
