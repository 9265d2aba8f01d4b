#pragma once
// What the evaluator and the built-in functions, methods, filters and tests share.
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template_string.h"
#include "text/template_value.h"

namespace glmtune::text::jinja {

struct Args {
  std::vector<Val> positional;
  std::vector<std::pair<std::string, Val>> named;
};

// Arguments by the names of the parameters; too many or unknown ones are a TypeError.
class Parameters {
 public:
  Parameters(const Args& args, std::string_view function,
             std::initializer_list<std::string_view> names);
  const Val* operator[](std::size_t i) const { return values_[i]; }  // null: not given
  const Val& required(std::size_t i) const;
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  bool flag(std::size_t i, bool otherwise) const;
  const Val& string(std::size_t i) const;           // required, a string
  const Val* optional_string(std::size_t i) const;  // null where not given or None
  const Val* given(std::size_t i) const;            // null where not given or None

 private:
  std::string function_;
  std::vector<std::string> names_;
  std::vector<const Val*> values_;
};

struct Runtime {
  Runtime(Heap& h, const RenderOptions& o) : heap(h), options(o) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  Heap& heap;
  const RenderOptions& options;
  virtual Val call(const Val& callee, Args& args) = 0;
  virtual ~Runtime() = default;
};

// The `loop` of a for loop.
struct LoopObject : Object {
  std::string repr() const override;
  std::shared_ptr<const ListObject> items;
  std::size_t index = 0;
  int depth = 0;
  bool recursive = false;
  std::vector<Val> changed;                // what loop.changed() saw last
  const struct Stmt* statement = nullptr;  // null once the loop has ended
  std::shared_ptr<struct Scope> scope;     // around the loop, while it runs
};

// A built-in function, or a cycler or joiner with its state.
struct FunctionObject : Object {
  explicit FunctionObject(std::string n) : name(std::move(n)) {}
  std::string name;
  std::vector<Val> values;
  std::size_t position = 0;
};

// x.name, x[key] and x[start:stop:step] as Jinja's sandbox looks them up.
Val attribute(Heap& heap, const Val& object, const std::string& name);
Val item(Heap& heap, const Val& object, const Val& key);
Val slice(Heap& heap, const Val& object, const Val* start, const Val* stop, const Val* step);
Val binary(Heap& heap, char op, const Val& a, const Val& b);
Val negative(const Val& v);

Val call_method(Heap& heap, const MethodObject& method, const Args& args);
bool has_method(const Val& v, std::string_view name);
bool changes_its_object(const Val& v, std::string_view name);  // a method that the sandbox refuses
Val list_method(Heap& heap, const Val& self, const std::string& name, const Args& args);
Val string_method(Heap& heap, const Val& self, const std::string& name, const Args& args);
bool is_string_method(std::string_view name);

// Null where there is no function of that name.
Val builtin_function(std::string_view name);
Val call_function(Runtime& rt, FunctionObject& function, const Args& args);
Val function_attribute(const Val& function, const std::string& name);

// The name of groupby's pairs, which have the attributes grouper and list.
inline constexpr std::string_view kGroupName = "_GroupTuple";

bool is_filter(std::string_view name);
bool is_test(std::string_view name);
Val apply_filter(Runtime& rt, const std::string& name, const Val& input, const Args& args);
bool apply_test(Runtime& rt, const std::string& name, const Val& v, const Args& args);

}  // namespace glmtune::text::jinja
