#pragma once
// The tree-walking evaluator of one render.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/template_ast.h"
#include "text/template_runtime.h"

namespace glmtune::text::jinja {

// Variables of one block; those around it are found through `parent`. A Val() is a name that has no
// value yet.
struct Scope : Cyclic {
  Scope(Heap* heap, std::shared_ptr<Scope> p) : Cyclic(heap, sizeof(Scope)), parent(std::move(p)) {}
  void drop_contents() override {
    variables.clear();
    parent.reset();
  }
  void set(int symbol, Val v);
  std::vector<std::pair<int, Val>> variables;
  std::shared_ptr<Scope> parent;
  bool remembered = false;  // by a macro: must not be used again for something else
};

struct MacroObject : Object {
  std::string repr() const override;
  const Stmt* statement = nullptr;
  std::shared_ptr<Scope> scope;  // where it was defined
};

class Evaluator final : public Runtime {
 public:
  Evaluator(const Program& program, Heap& heap, const RenderOptions& options);
  void run(const io::Value& context);

  TextBuilder& text() { return top_; }
  const std::vector<std::pair<std::size_t, std::size_t>>& generation() const { return generation_; }
  std::vector<UnreadField> unread() const;          // of messages
  int line() const { return line_; }                // of what is being evaluated
  int message() const { return current_message_; }  // being rendered, -1 outside loops over them

  Val call(const Val& callee, Args& args) override;

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // template_evaluator.cpp: statements
  Flow run_body(const Body& body);
  Flow run_statement(const Stmt& s);
  Flow run_if(const Stmt& s);
  void run_for(const Stmt& s, const Val& iterable, int depth);
  std::shared_ptr<const ListObject> chosen(const Stmt& s, std::shared_ptr<const ListObject> items);
  void run_generation(const Stmt& s);
  void run_call_block(const Stmt& s);
  void assign(const Target& target, Val v);
  Val capture(const Stmt& s);  // the text its body writes, in a scope of its own
  Val make_macro(const Stmt& s);
  Val call_macro(const MacroObject& macro, Args& args);
  void write(const Val& v);

  // template_evaluate.cpp: expressions
  Val evaluate(const Expr& e);
  std::optional<Val> folded(const Expr& e, bool printed);
  Val evaluate_compare(const Expr& e);
  Val evaluate_call(const Expr& e);
  Val evaluate_filter(const Expr& e);
  Val evaluate_slice(const Expr& e);
  Val evaluate_dict(const Expr& e);
  std::vector<Val> evaluate_all(const std::vector<ExprPtr>& list, std::size_t from);
  Args evaluate_arguments(const Expr& e);
  Val look_up(int symbol);

  struct Depth {
    explicit Depth(Evaluator& e);
    ~Depth() { --evaluator.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Evaluator& evaluator;
  };
  // Puts a scope in place of the current one for a while.
  struct Inside {
    Inside(Evaluator& e, std::shared_ptr<Scope> scope)
        : evaluator(e), outer(std::exchange(e.scope_, std::move(scope))) {}
    ~Inside() { evaluator.scope_ = std::move(outer); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    Evaluator& evaluator;
    std::shared_ptr<Scope> outer;
  };
  std::shared_ptr<Scope> scope_within(std::shared_ptr<Scope> parent,
                                      const std::vector<int>& unset = {}) {
    auto scope = std::make_shared<Scope>(&heap, std::move(parent));
    for (const int symbol : unset) scope->set(symbol, Val());
    return scope;
  }

  const Program& program_;
  TextBuilder top_;
  TextBuilder* out_ = &top_;
  std::shared_ptr<Scope> scope_;
  std::vector<std::pair<std::size_t, std::size_t>> generation_;
  Val messages_;
  const Val* block_text_ = nullptr;  // what a filter block's filters apply to
  bool folding_ = false;
  int depth_ = 0;
  int line_ = 1;
  std::int32_t current_message_ = -1;
};

}  // namespace glmtune::text::jinja
