#pragma once
// Value: the project's one small JSON-like value with insertion-ordered objects, used for
// config.json (unknown keys survive rewriting), chat rows, template contexts. Parser and writer
// beside it.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace glmtune::io {

class Value {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kInt, kDouble, kString, kArray, kObject };
  using Array = std::vector<Value>;
  using Member = std::pair<std::string, Value>;
  using Object = std::vector<Member>;  // insertion order; keys are unique

  Value() = default;
  Value(std::nullptr_t) {}
  Value(bool b);
  Value(std::int64_t i);
  Value(int i) : Value(static_cast<std::int64_t>(i)) {}
  Value(double d);
  Value(std::string s);
  Value(std::string_view s) : Value(std::string(s)) {}
  Value(const char* s) : Value(std::string(s)) {}
  Value(Array a);
  Value(Object o);

  Kind kind() const { return kind_; }
  std::string_view kind_name()
      const;  // "null", "bool", "integer", "number", "string", "array", "object"
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_number() const { return kind_ == Kind::kInt || kind_ == Kind::kDouble; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }

  // Accessors throw Error naming the kind found when it is another.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_double() const;  // integers too
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  // Objects: null pointer when the key is absent. set() replaces in place or appends.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  void set(std::string_view key, Value v);
  bool erase(std::string_view key);
  std::size_t size() const;  // of an array or object, bytes of a string

  bool operator==(const Value& other) const;

 private:
  Kind kind_ = Kind::kNull;
  bool bool_ = false;
  std::int64_t int_ = 0;
  double double_ = 0;
  // Shared and copied on write, so that values are cheap to pass around.
  std::shared_ptr<std::string> string_;
  std::shared_ptr<Array> array_;
  std::shared_ptr<Object> object_;
};

// Strict JSON (RFC 8259); duplicate keys, invalid UTF-8, trailing text and depth over 512 are
// errors that name line and column. `where` begins the message (a file name, "file:line").
Value parse_json(std::string_view text, std::string_view where);
Value read_json_file(const std::string& path);

struct JsonStyle {
  int indent = -1;            // -1: one line with ", " and ": " as Python's json.dumps
  bool ensure_ascii = false;  // escape everything beyond ASCII
};
// Floats are spelled as Python's repr spells them.
std::string to_json(const Value& v, const JsonStyle& style = {});

}  // namespace glmtune::io
