#pragma once
// Differences between two tensors of the same shape on the CPU, whatever their element types.
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace glmtune::test {

struct Difference {
  double rel_l2 = 0;   // ‖got − want‖ / ‖want‖ (‖got‖ where want is all zero)
  double max_abs = 0;  // largest |got − want|
  std::int64_t worst = 0;
  bool finite = true;  // false: one side is NaN or infinite where the other is not the same
};

// Elements in row-major order, converted to double (any real or integer type; strides respected).
std::vector<double> values_of(const Tensor& t);

Difference compare(const Tensor& got, const Tensor& want);
Difference compare(const std::vector<double>& got, const std::vector<double>& want);
std::string describe(const Difference& d);

// Relative L2 error to expect of a result stored as `t` whose elements are sums of `sum_length`
// products, in arithmetic of wide(t): the format's half step for the one rounding, and sqrt(length)
// half steps of the arithmetic, with a factor of four for constants that depend on the data.
double tolerance(DType t, std::int64_t sum_length);

}  // namespace glmtune::test
