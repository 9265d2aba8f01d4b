// The expression half of the parser; the order of precedences is Jinja's.
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/cat.h"
#include "text/template_parser.h"

namespace glmtune::text::jinja {
namespace {
// Operators in a row: each makes the tree one level deeper.
constexpr int kMaxLinks = 200;
}  // namespace

ExprPtr Parser::make(ExprKind kind, std::initializer_list<ExprPtr*> children) {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->line = now().line;
  for (ExprPtr* child : children) {
    if (*child) e->line = e->children.empty() ? (*child)->line : e->line;
    e->children.push_back(std::move(*child));
  }
  return e;
}

ExprPtr Parser::parse_expression(bool with_condition) {
  Nesting nesting(*this);
  return with_condition ? parse_condition() : parse_or();
}

// One expression, or several with commas: a tuple.
ExprPtr Parser::parse_tuple(bool with_condition, bool explicit_parentheses) {
  std::vector<ExprPtr> items;
  bool tuple = false;
  const auto ends = [&] {
    return now().kind == Token::Kind::kVariableEnd || now().kind == Token::Kind::kBlockEnd ||
           is_operator(")") || is_operator("]") || (!with_condition && is_name("if"));
  };
  for (;;) {
    if (!items.empty()) {
      if (!skip_operator(",")) break;
      tuple = true;
    }
    if (ends()) break;
    items.push_back(parse_expression(with_condition));
  }
  if (!tuple) {
    if (items.size() == 1) return std::move(items[0]);
    if (!explicit_parentheses) bad(cat("expected an expression, found ", found()));
  }
  ExprPtr e = make(ExprKind::kTuple);
  e->children = std::move(items);
  return e;
}

ExprPtr Parser::parse_condition() {
  ExprPtr value = parse_or();
  for (int links = 0; skip_name("if"); ++links) {
    if (links > kMaxLinks) bad("an expression is too long");
    ExprPtr condition = parse_or();
    ExprPtr otherwise;
    if (skip_name("else")) {
      Nesting nesting(*this);
      otherwise = parse_condition();
    }
    value = make(ExprKind::kConditional, {&condition, &value, &otherwise});
  }
  return value;
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  for (int links = 0; skip_name("or"); ++links) {
    if (links > kMaxLinks) bad("an expression is too long");
    ExprPtr right = parse_and();
    left = make(ExprKind::kOr, {&left, &right});
  }
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  for (int links = 0; skip_name("and"); ++links) {
    if (links > kMaxLinks) bad("an expression is too long");
    ExprPtr right = parse_not();
    left = make(ExprKind::kAnd, {&left, &right});
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  Nesting nesting(*this);
  next();
  ExprPtr inner = parse_not();
  return make(ExprKind::kNot, {&inner});
}

ExprPtr Parser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr e;
  const auto add = [&](std::string name) {
    if (!e) e = make(ExprKind::kCompare, {&first});
    e->names.push_back(std::move(name));
    e->children.push_back(parse_sum());
  };
  for (;;) {
    const bool compares = now().kind == Token::Kind::kOperator &&
                          (now().text == "==" || now().text == "!=" || now().text == "<" ||
                           now().text == "<=" || now().text == ">" || now().text == ">=");
    if (compares) {
      add(next().text);
    } else if (skip_name("in")) {
      add("in");
    } else if (is_name("not") && ahead().kind == Token::Kind::kName && ahead().text == "in") {
      next();
      next();
      add("not in");
    } else {
      return e ? std::move(e) : std::move(first);
    }
  }
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  int links = 0;
  while (is_operator("+") || is_operator("-")) {
    if (++links > kMaxLinks) bad("an expression is too long");
    const char op = next().text[0];
    ExprPtr right = parse_concat();
    left = make(ExprKind::kBinary, {&left, &right});
    left->op = op;
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  ExprPtr first = parse_product();
  if (!is_operator("~")) return first;
  ExprPtr e = make(ExprKind::kConcat, {&first});
  while (skip_operator("~")) e->children.push_back(parse_product());
  return e;
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_power();
  int links = 0;
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
    if (++links > kMaxLinks) bad("an expression is too long");
    const std::string op = next().text;
    ExprPtr right = parse_power();
    left = make(ExprKind::kBinary, {&left, &right});
    left->op = op == "//" ? 'f' : op[0];
  }
  return left;
}

ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary();
  int links = 0;
  while (skip_operator("**")) {
    if (++links > kMaxLinks) bad("an expression is too long");
    ExprPtr right = parse_unary();
    left = make(ExprKind::kBinary, {&left, &right});
    left->op = 'p';
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  Nesting nesting(*this);
  ExprPtr e;
  if (is_operator("-") || is_operator("+")) {
    const bool negative = next().text == "-";
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): make() takes it over
    ExprPtr inner = parse_unary(false);
    e = make(negative ? ExprKind::kNegative : ExprKind::kPositive, {&inner});
  } else {
    e = parse_primary();
  }
  e = parse_postfix(std::move(e));
  return with_filter ? parse_filters_and_tests(std::move(e)) : std::move(e);
}

ExprPtr Parser::parse_primary() {
  ExprPtr e = make(ExprKind::kConstant);
  const Token t = now();
  switch (t.kind) {
    case Token::Kind::kName:
      next();
      if (t.text == "true" || t.text == "True") {
        e->value = boolean(true);
      } else if (t.text == "false" || t.text == "False") {
        e->value = boolean(false);
      } else if (t.text == "none" || t.text == "None") {
        e->value = none();
      } else {
        e->kind = ExprKind::kName;
        e->name = mention(t.text);
        e->symbol = program_.symbols.id(t.text);
      }
      return e;
    case Token::Kind::kString: {
      std::string text;
      while (now().kind == Token::Kind::kString) text += next().text;
      e->value = plain_string(nullptr, mention(std::move(text)));
      return e;
    }
    case Token::Kind::kInteger: {
      next();
      std::string_view digits = t.text;
      const int base = digits.substr(0, 2) == "0x"   ? 16
                       : digits.substr(0, 2) == "0o" ? 8
                       : digits.substr(0, 2) == "0b" ? 2
                                                     : 10;
      if (base != 10) digits.remove_prefix(2);
      std::int64_t value = 0;
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
      if (error != std::errc() || end != digits.data() + digits.size()) {
        bad(cat("the number ", t.text, " is too large"));
      }
      e->value = integer(value);
      return e;
    }
    case Token::Kind::kFloat:
      next();
      e->value = number(std::strtod(t.text.c_str(), nullptr));
      return e;
    case Token::Kind::kOperator:
      if (t.text == "(") {
        next();
        e = parse_tuple(true, true);
        expect_operator(")");
        return e;
      }
      if (t.text == "[") return parse_list();
      if (t.text == "{") return parse_dict();
      break;
    default:
      break;
  }
  bad(cat("expected an expression, found ", found()));
}

ExprPtr Parser::parse_list() {
  ExprPtr e = make(ExprKind::kList);
  expect_operator("[");
  while (!is_operator("]")) {
    if (!e->children.empty()) expect_operator(",");
    if (is_operator("]")) break;
    e->children.push_back(parse_expression());
  }
  expect_operator("]");
  return e;
}

ExprPtr Parser::parse_dict() {
  ExprPtr e = make(ExprKind::kDict);
  expect_operator("{");
  while (!is_operator("}")) {
    if (!e->children.empty()) expect_operator(",");
    if (is_operator("}")) break;
    e->children.push_back(parse_expression());
    expect_operator(":");
    e->children.push_back(parse_expression());
  }
  expect_operator("}");
  return e;
}

ExprPtr Parser::parse_postfix(ExprPtr node) {
  for (int links = 0;; ++links) {
    if (links > kMaxLinks) bad("an expression is too long");
    if (is_operator(".") || is_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr node) {
  for (int links = 0;; ++links) {
    if (links > kMaxLinks) bad("an expression is too long");
    if (is_operator("|")) {
      next();
      node = parse_filter(std::move(node));
    } else if (is_name("is")) {
      node = parse_test(std::move(node));
    } else if (is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_filter(ExprPtr node) {
  ExprPtr e = make(ExprKind::kFilter, {&node});
  e->line = now().line;
  e->name = expect_name();
  while (skip_operator(".")) e->name.append(1, '.').append(expect_name());
  if (is_operator("(")) parse_arguments(*e);
  return e;
}

ExprPtr Parser::parse_test(ExprPtr node) {
  next();
  const bool negated = skip_name("not");
  ExprPtr e = make(ExprKind::kTest, {&node});
  e->line = now().line;
  e->name = expect_name();
  while (skip_operator(".")) e->name.append(1, '.').append(expect_name());
  const Token& t = now();
  if (is_operator("(")) {
    parse_arguments(*e);
  } else if ((t.kind == Token::Kind::kName && t.text != "else" && t.text != "or" &&
              t.text != "and") ||
             t.kind == Token::Kind::kString || t.kind == Token::Kind::kInteger ||
             t.kind == Token::Kind::kFloat || is_operator("[") || is_operator("{")) {
    if (is_name("is")) bad("You cannot chain multiple tests with is");
    ExprPtr argument = parse_primary();
    e->children.push_back(parse_postfix(std::move(argument)));
  }
  return negated ? make(ExprKind::kNot, {&e}) : std::move(e);
}

ExprPtr Parser::parse_subscript(ExprPtr node) {
  if (skip_operator(".")) {
    if (now().kind == Token::Kind::kInteger) {
      ExprPtr key = parse_primary();
      return make(ExprKind::kItem, {&node, &key});
    }
    ExprPtr e = make(ExprKind::kAttribute, {&node});
    e->line = now().line;
    e->name = mention(expect_name());
    return e;
  }
  expect_operator("[");
  ExprPtr e;
  ExprPtr key;
  if (!is_operator(":")) key = parse_expression();
  if (is_operator(":")) {
    ExprPtr stop, step;
    next();
    if (!is_operator(":") && !is_operator("]")) stop = parse_expression();
    if (skip_operator(":") && !is_operator("]")) step = parse_expression();
    e = make(ExprKind::kSlice, {&node, &key, &stop, &step});
  } else {
    if (is_operator(",")) {
      ExprPtr tuple = make(ExprKind::kTuple, {&key});
      while (skip_operator(",")) tuple->children.push_back(parse_expression());
      key = std::move(tuple);
    }
    e = make(ExprKind::kItem, {&node, &key});
  }
  expect_operator("]");
  return e;
}

ExprPtr Parser::parse_call(ExprPtr node) {
  ExprPtr e = make(ExprKind::kCall, {&node});
  e->line = now().line;
  parse_arguments(*e);
  return e;
}

void Parser::parse_arguments(Expr& call) {
  expect_operator("(");
  bool first = true;
  while (!is_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (is_operator(")")) break;
    }
    first = false;
    if (is_operator("*") || is_operator("**")) {
      const bool named = next().text == "**";
      ExprPtr all = parse_expression();
      call.children.push_back(make(named ? ExprKind::kSpreadNamed : ExprKind::kSpread, {&all}));
    } else if (now().kind == Token::Kind::kName && ahead().kind == Token::Kind::kOperator &&
               ahead().text == "=") {
      const std::string name = next().text;
      next();
      call.keywords.emplace_back(name, parse_expression());
    } else {
      if (!call.keywords.empty()) bad("positional argument follows keyword argument");
      call.children.push_back(parse_expression());
    }
  }
  expect_operator(")");
}

}  // namespace glmtune::text::jinja
