#include "ops/expect.h"

#include <algorithm>

#include "base/cat.h"

namespace glmtune::ops {
namespace {

std::string shape_text(Shape shape) {
  std::string s = "[";
  for (const std::int64_t n : shape)
    s += (s.size() > 1 ? ", " : "") + (n == kAny ? std::string("any") : std::to_string(n));
  return s + "]";
}

std::string found(const char* op, const char* name, const Tensor& t) {
  return cat(op, ": ", name, " is ", t.defined() ? t.shape_string() : std::string("absent"),
             ", expected ");
}

bool has_shape(const Tensor& t, Shape shape) {
  if (t.rank != static_cast<int>(shape.size())) return false;
  int d = 0;
  for (const std::int64_t n : shape) {
    if (n != kAny && t.size(d) != n) return false;
    ++d;
  }
  return true;
}

}  // namespace

void expect_shape(const char* op, const char* name, const Tensor& t, Shape shape) {
  if (!has_shape(t, shape)) fail(found(op, name, t) + shape_text(shape));
  if (t.rank > 0 && t.stride(-1) != 1 && t.size(-1) > 1)
    fail(found(op, name, t) + cat("an innermost stride of 1, found ", t.stride(-1)));
}

void expect_dtype(const char* op, const char* name, const Tensor& t,
                  std::initializer_list<DType> allowed) {
  if (std::find(allowed.begin(), allowed.end(), t.dtype) != allowed.end()) return;
  std::string names;
  for (const DType dtype : allowed)
    names += (names.empty() ? "" : " or ") + std::string(name_of(dtype));
  fail(found(op, name, t) + names);
}

void expect(const char* op, const char* name, const Tensor& t, Shape shape, DType dtype) {
  if (t.dtype != dtype || !has_shape(t, shape))
    fail(found(op, name, t) + shape_text(shape) + " " + std::string(name_of(dtype)));
  expect_shape(op, name, t, shape);
}

void expect_real(const char* op, const char* name, const Tensor& t, Shape shape) {
  expect_shape(op, name, t, shape);
  expect_dtype(op, name, t, {DType::kF64, DType::kF32, DType::kBF16});
}

void expect_same(const char* op, const char* name, const Tensor& t, const char* other_name,
                 const Tensor& other) {
  if (!t.same_shape(other) || t.dtype != other.dtype)
    fail(found(op, name, t) + cat("the shape and type of ", other_name, ", ",
                                  other.defined() ? other.shape_string() : "absent"));
  if (t.rank > 0 && t.stride(-1) != 1 && t.size(-1) > 1)
    fail(found(op, name, t) + cat("an innermost stride of 1, found ", t.stride(-1)));
}

void expect_equal(const char* op, const char* what, std::int64_t found_value,
                  const char* expected_what, std::int64_t expected) {
  if (found_value != expected)
    fail(cat(op, ": ", what, " is ", found_value, ", expected ", expected_what, " = ", expected));
}

}  // namespace glmtune::ops
