#pragma once
// What `check()` of the ops is made of: each function fails with the op's and operand's name, what
// was found and what was expected. A size of −1 in an expected shape stands for any.
#include <initializer_list>

#include "tensor/tensor.h"

namespace glmtune::ops {

inline constexpr std::int64_t kAny = -1;

// Shape, innermost stride 1.
void expect_shape(const char* op, const char* name, const Tensor& t, Shape shape);
void expect_dtype(const char* op, const char* name, const Tensor& t,
                  std::initializer_list<DType> allowed);
void expect(const char* op, const char* name, const Tensor& t, Shape shape, DType dtype);
// F64, F32 or BF16.
void expect_real(const char* op, const char* name, const Tensor& t, Shape shape);
// The shape and dtype of another operand.
void expect_same(const char* op, const char* name, const Tensor& t, const char* other_name,
                 const Tensor& other);
// Sizes or other numbers that must be equal.
void expect_equal(const char* op, const char* what, std::int64_t found, const char* expected_what,
                  std::int64_t expected);

}  // namespace glmtune::ops
