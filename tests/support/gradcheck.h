#pragma once
// Backward against differences in double. Works for anything that has a scalar loss: an op, a
// module, a model.
#include <functional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace glmtune::test {

struct GradientError {
  std::string name;
  double rel_l2 = 0;
  std::int64_t checked = 0;  // elements
};

struct GradientPair {
  std::string name;
  Tensor input;     // F64; changed and restored element by element
  Tensor gradient;  // F64, as the backward gave it: dloss/dinput
};

// Fourth-order central differences, (8(f₊₁ − f₋₁) − (f₊₂ − f₋₂)) / 12h, of `loss` with respect to
// each element of each input, or to `max_elements` evenly spread ones. Relative L2 error per tensor
// over the elements checked. Correct backwards reach 1e-9; 1e-6 is the limit.
std::vector<GradientError> gradcheck(const std::function<double()>& loss,
                                     const std::vector<GradientPair>& pairs,
                                     std::int64_t max_elements = 1 << 20, double step = 1e-3);

// The same where setting and reading go through functions: derivative of element i of one input.
double difference(const std::function<double(double offset)>& loss_at, double step = 1e-3);

}  // namespace glmtune::test
