#pragma once
// Recursive descent over the tokens, with Jinja's own grammar and precedences.
#include <initializer_list>

#include "text/template_ast.h"
#include "text/template_lexer.h"

namespace glmtune::text::jinja {

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(lex(source)) {}
  Program run();

 private:
  // template_parser.cpp: statements
  Body parse_body(std::initializer_list<std::string_view> ends);
  std::unique_ptr<Stmt> parse_statement();
  std::unique_ptr<Stmt> parse_if();
  std::unique_ptr<Stmt> parse_for();
  std::unique_ptr<Stmt> parse_set();
  std::unique_ptr<Stmt> parse_macro();
  std::unique_ptr<Stmt> parse_call_block();
  std::unique_ptr<Stmt> parse_filter_block();
  std::unique_ptr<Stmt> parse_with();
  std::unique_ptr<Stmt> parse_generation();
  std::unique_ptr<Stmt> parse_loop_control(StmtKind kind);
  Body parse_until(std::string_view end);   // and the end of its block
  Body parse_closed(std::string_view end);  // the same, where break and continue cannot leave
  std::vector<Parameter> parse_parameters();
  Target parse_target(bool with_tuple, bool with_namespace);
  Target parse_one_target(bool with_namespace);

  // template_expressions.cpp
  ExprPtr parse_expression(bool with_condition = true);
  ExprPtr parse_tuple(bool with_condition = true, bool explicit_parentheses = false);
  ExprPtr parse_condition();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters_and_tests(ExprPtr node);
  ExprPtr parse_filter(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_call(ExprPtr node);
  void parse_arguments(Expr& call);

  // tokens
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  bool is_operator(std::string_view op) const;
  bool is_name(std::string_view name) const;
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view op);
  std::string expect_name();
  void expect_block_end();
  [[noreturn]] void bad(const std::string& what) const;
  std::string found() const;  // the current token, for messages
  ExprPtr make(ExprKind kind, std::initializer_list<ExprPtr*> children = {});
  std::unique_ptr<Stmt> statement(StmtKind kind) const;
  std::string mention(std::string name);

  struct Nesting {
    explicit Nesting(Parser& p);
    ~Nesting() { --parser.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Parser& parser;
  };

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // around the current place, for break and continue
  Program program_;
};

}  // namespace glmtune::text::jinja
