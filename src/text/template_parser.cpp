#include "text/template_parser.h"

#include <algorithm>

#include "base/cat.h"

namespace glmtune::text::jinja {
namespace {
constexpr int kMaxNesting = 120;
constexpr int kMaxBranches = 500;
}  // namespace

int Symbols::id(const std::string& name) {
  const auto [at, fresh] = ids.emplace(name, static_cast<int>(names.size()));
  if (fresh) names.push_back(name);
  return at->second;
}

Program parse(std::string_view source) {
  return Parser(source).run();
}

Program Parser::run() {
  Symbols& s = program_.symbols;
  s.loop = s.id("loop");
  s.caller = s.id("caller");
  s.varargs = s.id("varargs");
  s.kwargs = s.id("kwargs");
  program_.body = parse_body({});
  analyze_scopes(program_);
  return std::move(program_);
}

Parser::Nesting::Nesting(Parser& p) : parser(p) {
  if (++parser.depth_ > kMaxNesting) parser.bad("the template is nested too deeply");
}

void Parser::bad(const std::string& what) const {
  throw SyntaxError{now().line, what};
}

std::string Parser::found() const {
  switch (now().kind) {
    case Token::Kind::kEnd:
      return "end of template";
    case Token::Kind::kBlockEnd:
      return "end of statement block";
    case Token::Kind::kVariableEnd:
      return "end of print statement";
    case Token::Kind::kString:
      return "a string";
    default:
      return cat("'", now().text, "'");
  }
}

Token Parser::next() {
  Token t = now();
  if (at_ + 1 < tokens_.size()) ++at_;
  return t;
}

bool Parser::is_operator(std::string_view op) const {
  return now().kind == Token::Kind::kOperator && now().text == op;
}
bool Parser::is_name(std::string_view name) const {
  return now().kind == Token::Kind::kName && now().text == name;
}
bool Parser::skip_operator(std::string_view op) {
  const bool yes = is_operator(op);
  if (yes) next();
  return yes;
}
bool Parser::skip_name(std::string_view name) {
  const bool yes = is_name(name);
  if (yes) next();
  return yes;
}
void Parser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) bad(cat("expected '", op, "', found ", found()));
}
std::string Parser::expect_name() {
  if (now().kind != Token::Kind::kName) bad(cat("expected a name, found ", found()));
  return next().text;
}
void Parser::expect_block_end() {
  if (now().kind != Token::Kind::kBlockEnd) {
    bad(cat("expected the end of the statement, found ", found()));
  }
  next();
}

std::string Parser::mention(std::string name) {
  program_.mentioned.insert(name);
  return name;
}

std::unique_ptr<Stmt> Parser::statement(StmtKind kind) const {
  auto s = std::make_unique<Stmt>();
  s->kind = kind;
  s->line = now().line;
  return s;
}

// Up to a block that begins with one of `ends`, whose name is the current token then; without
// ends, to the end of the template.
Body Parser::parse_body(std::initializer_list<std::string_view> ends) {
  Nesting nesting(*this);
  const int first_line = now().line;
  Body body;
  for (;;) {
    switch (now().kind) {
      case Token::Kind::kEnd:
        if (ends.size() == 0) return body;
        throw SyntaxError{first_line,
                          cat("unexpected end of template, looking for '", *ends.begin(), "'")};
      case Token::Kind::kData: {
        auto s = statement(StmtKind::kText);
        s->value = plain_string(nullptr, next().text);
        body.push_back(std::move(s));
        break;
      }
      case Token::Kind::kVariableBegin: {
        auto s = statement(StmtKind::kOutput);
        next();
        s->expr = parse_tuple();
        if (now().kind != Token::Kind::kVariableEnd) {
          bad(cat("expected the end of the print statement, found ", found()));
        }
        next();
        body.push_back(std::move(s));
        break;
      }
      case Token::Kind::kBlockBegin: {
        next();
        if (now().kind != Token::Kind::kName) bad("a tag name was expected");
        if (std::find(ends.begin(), ends.end(), now().text) != ends.end()) return body;
        body.push_back(parse_statement());
        break;
      }
      default:
        bad(cat("unexpected ", found()));
    }
  }
}

Body Parser::parse_until(std::string_view end) {
  Body body = parse_body({end});
  next();
  expect_block_end();
  return body;
}

Body Parser::parse_closed(std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  Body body = parse_until(end);
  loops_ = loops;
  return body;
}

std::unique_ptr<Stmt> Parser::parse_statement() {
  const std::string tag = now().text;
  if (tag == "if") return parse_if();
  if (tag == "for") return parse_for();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call_block();
  if (tag == "filter") return parse_filter_block();
  if (tag == "with") return parse_with();
  if (tag == "generation") return parse_generation();
  if (tag == "break") return parse_loop_control(StmtKind::kBreak);
  if (tag == "continue") return parse_loop_control(StmtKind::kContinue);
  for (const char* other :
       {"include", "import", "from", "extends", "block", "autoescape", "do", "trans", "debug"}) {
    if (tag == other) bad(cat("the tag '", tag, "' is not supported in chat templates"));
  }
  bad(cat("unknown tag '", tag, "'"));
}

std::unique_ptr<Stmt> Parser::parse_if() {
  auto s = statement(StmtKind::kIf);
  Stmt* current = s.get();
  for (int branches = 0;; ++branches) {
    if (branches > kMaxBranches) bad("an if has too many branches");
    next();
    current->expr = parse_tuple(false);
    expect_block_end();
    current->body = parse_body({"elif", "else", "endif"});
    if (is_name("elif")) {
      auto branch = statement(StmtKind::kIf);
      Stmt* inner = branch.get();
      current->otherwise.push_back(std::move(branch));
      current = inner;
      continue;
    }
    const bool otherwise = is_name("else");
    next();
    expect_block_end();
    if (otherwise) current->otherwise = parse_until("endif");
    return s;
  }
}

std::unique_ptr<Stmt> Parser::parse_for() {
  auto s = statement(StmtKind::kFor);
  next();
  s->target = parse_target(true, false);
  if (!skip_name("in")) bad(cat("expected 'in', found ", found()));
  s->expr = parse_tuple(false);
  if (skip_name("if")) s->filter = parse_expression();
  s->recursive = skip_name("recursive");
  expect_block_end();
  ++loops_;
  s->body = parse_body({"endfor", "else"});
  --loops_;
  const bool otherwise = next().text == "else";
  expect_block_end();
  if (otherwise) s->otherwise = parse_until("endfor");
  return s;
}

Target Parser::parse_one_target(bool with_namespace) {
  Target t;
  if (skip_operator("(")) {
    Nesting nesting(*this);
    t = parse_target(true, false);
    expect_operator(")");
    return t;
  }
  t.name = mention(expect_name());
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (t.name == constant) bad(cat("cannot assign to '", t.name, "'"));
  }
  t.symbol = program_.symbols.id(t.name);
  if (with_namespace && skip_operator(".")) t.attribute = mention(expect_name());
  return t;
}

Target Parser::parse_target(bool with_tuple, bool with_namespace) {
  Target first = parse_one_target(with_namespace);
  if (!with_tuple || !is_operator(",")) return first;
  Target all;
  all.elements.push_back(std::move(first));
  while (skip_operator(",")) {
    if (now().kind != Token::Kind::kName && !is_operator("(")) break;
    if (is_name("in")) break;
    all.elements.push_back(parse_one_target(false));
  }
  return all;
}

std::unique_ptr<Stmt> Parser::parse_set() {
  auto s = statement(StmtKind::kSet);
  next();
  s->target = parse_target(true, true);
  if (skip_operator("=")) {
    s->expr = parse_tuple();
    expect_block_end();
    return s;
  }
  s->kind = StmtKind::kSetBlock;
  if (is_operator("|")) s->filter = parse_filters_and_tests(nullptr);
  expect_block_end();
  s->body = parse_closed("endset");
  return s;
}

std::vector<Parameter> Parser::parse_parameters() {
  std::vector<Parameter> parameters;
  expect_operator("(");
  while (!is_operator(")")) {
    if (!parameters.empty()) expect_operator(",");
    const std::string name = mention(expect_name());
    Parameter p{program_.symbols.id(name), name, nullptr};
    for (const Parameter& other : parameters) {
      if (other.symbol == p.symbol) bad(cat("duplicate parameter '", name, "'"));
    }
    if (skip_operator("=")) {
      p.otherwise = parse_expression();
    } else if (!parameters.empty() && parameters.back().otherwise) {
      bad("non-default argument follows default argument");
    }
    parameters.push_back(std::move(p));
  }
  expect_operator(")");
  return parameters;
}

std::unique_ptr<Stmt> Parser::parse_macro() {
  auto s = statement(StmtKind::kMacro);
  next();
  s->name = mention(expect_name());
  s->symbol = program_.symbols.id(s->name);
  s->parameters = parse_parameters();
  expect_block_end();
  s->body = parse_closed("endmacro");
  return s;
}

std::unique_ptr<Stmt> Parser::parse_call_block() {
  auto s = statement(StmtKind::kCall);
  next();
  s->name = "caller";
  if (is_operator("(")) s->parameters = parse_parameters();
  s->expr = parse_expression();
  if (s->expr->kind != ExprKind::kCall) bad("expected a call");
  expect_block_end();
  s->body = parse_closed("endcall");
  return s;
}

std::unique_ptr<Stmt> Parser::parse_filter_block() {
  auto s = statement(StmtKind::kFilter);
  next();
  s->expr = parse_filter(nullptr);
  s->expr = parse_filters_and_tests(std::move(s->expr));
  expect_block_end();
  s->body = parse_closed("endfilter");
  return s;
}

std::unique_ptr<Stmt> Parser::parse_with() {
  auto s = statement(StmtKind::kWith);
  next();
  while (now().kind != Token::Kind::kBlockEnd) {
    if (!s->assignments.empty()) expect_operator(",");
    Target t = parse_target(false, false);
    expect_operator("=");
    s->assignments.emplace_back(std::move(t), parse_expression());
  }
  expect_block_end();
  s->body = parse_until("endwith");
  return s;
}

std::unique_ptr<Stmt> Parser::parse_generation() {
  auto s = statement(StmtKind::kGeneration);
  next();
  expect_block_end();
  s->body = parse_closed("endgeneration");
  program_.has_generation = true;
  return s;
}

std::unique_ptr<Stmt> Parser::parse_loop_control(StmtKind kind) {
  auto s = statement(kind);
  if (loops_ == 0) bad(cat("'", now().text, "' outside of a loop"));
  next();
  expect_block_end();
  return s;
}

}  // namespace glmtune::text::jinja
