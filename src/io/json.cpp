#include "io/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <system_error>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::io {
namespace {

[[noreturn]] void wrong_kind(std::string_view expected, const Value& v) {
  fail(cat("expected ", expected, ", found ", v.kind_name()));
}

// The pointee, made this value's own first when others share it.
template <class T>
T& own(std::shared_ptr<T>& p) {
  if (p.use_count() > 1) p = std::make_shared<T>(*p);
  return *p;
}

}  // namespace

Value::Value(bool b) : kind_(Kind::kBool), bool_(b) {}
Value::Value(std::int64_t i) : kind_(Kind::kInt), int_(i) {}
Value::Value(double d) : kind_(Kind::kDouble), double_(d) {}
Value::Value(std::string s)
    : kind_(Kind::kString), string_(std::make_shared<std::string>(std::move(s))) {}
Value::Value(Array a) : kind_(Kind::kArray), array_(std::make_shared<Array>(std::move(a))) {}
Value::Value(Object o) : kind_(Kind::kObject), object_(std::make_shared<Object>(std::move(o))) {}

std::string_view Value::kind_name() const {
  static constexpr std::array<std::string_view, 7> kNames = {"null",   "bool",  "integer", "number",
                                                             "string", "array", "object"};
  return kNames[static_cast<std::size_t>(kind_)];
}

bool Value::as_bool() const {
  if (kind_ != Kind::kBool) wrong_kind("bool", *this);
  return bool_;
}

std::int64_t Value::as_int() const {
  if (kind_ != Kind::kInt) wrong_kind("integer", *this);
  return int_;
}

double Value::as_double() const {
  if (kind_ == Kind::kInt) return static_cast<double>(int_);
  if (kind_ != Kind::kDouble) wrong_kind("number", *this);
  return double_;
}

const std::string& Value::as_string() const {
  if (kind_ != Kind::kString) wrong_kind("string", *this);
  return *string_;
}

const Value::Array& Value::as_array() const {
  if (kind_ != Kind::kArray) wrong_kind("array", *this);
  return *array_;
}

Value::Array& Value::as_array() {
  if (kind_ != Kind::kArray) wrong_kind("array", *this);
  return own(array_);
}

const Value::Object& Value::as_object() const {
  if (kind_ != Kind::kObject) wrong_kind("object", *this);
  return *object_;
}

Value::Object& Value::as_object() {
  if (kind_ != Kind::kObject) wrong_kind("object", *this);
  return own(object_);
}

const Value* Value::find(std::string_view key) const {
  for (const auto& [k, v] : as_object()) {
    if (k == key) return &v;
  }
  return nullptr;
}

Value* Value::find(std::string_view key) {
  for (auto& [k, v] : as_object()) {
    if (k == key) return &v;
  }
  return nullptr;
}

void Value::set(std::string_view key, Value v) {
  if (Value* old = find(key)) {
    *old = std::move(v);
  } else {
    own(object_).emplace_back(std::string(key), std::move(v));
  }
}

bool Value::erase(std::string_view key) {
  Object& members = as_object();
  for (auto it = members.begin(); it != members.end(); ++it) {
    if (it->first == key) {
      members.erase(it);
      return true;
    }
  }
  return false;
}

std::size_t Value::size() const {
  switch (kind_) {
    case Kind::kString:
      return string_->size();
    case Kind::kArray:
      return array_->size();
    case Kind::kObject:
      return object_->size();
    default:
      wrong_kind("array, object or string", *this);
  }
}

// Numbers compare by value whatever their kind; the order of an object's members does not matter.
bool Value::operator==(const Value& other) const {
  if (is_int() && other.is_int()) return int_ == other.int_;
  if (is_number() && other.is_number()) return as_double() == other.as_double();
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kBool:
      return bool_ == other.bool_;
    case Kind::kString:
      return *string_ == *other.string_;
    case Kind::kArray:
      return array_ == other.array_ || *array_ == *other.array_;
    case Kind::kObject: {
      if (object_ == other.object_) return true;
      if (object_->size() != other.object_->size()) return false;
      for (const auto& [key, value] : *object_) {
        const Value* theirs = other.find(key);
        if (theirs == nullptr || !(value == *theirs)) return false;
      }
      return true;
    }
    default:
      return true;
  }
}

}  // namespace glmtune::io
