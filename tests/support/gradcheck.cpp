#include "support/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "base/cat.h"

namespace glmtune::test {
namespace {

double* element(const Tensor& t, std::int64_t i) {
  std::int64_t at = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    at += i % t.size(d) * t.stride(d);
    i /= t.size(d);
  }
  return t.as<double>() + at;
}

}  // namespace

double difference(const std::function<double(double)>& loss_at, double step) {
  const double near = loss_at(step) - loss_at(-step);
  const double far = loss_at(2 * step) - loss_at(-2 * step);
  return (8 * near - far) / (12 * step);
}

std::vector<GradientError> gradcheck(const std::function<double()>& loss,
                                     const std::vector<GradientPair>& pairs,
                                     std::int64_t max_elements, double step) {
  std::vector<GradientError> errors;
  for (const GradientPair& pair : pairs) {
    if (!pair.input.same_shape(pair.gradient) || pair.input.dtype != DType::kF64 ||
        pair.gradient.dtype != DType::kF64)
      fail(cat("gradcheck ", pair.name, ": input ", pair.input.shape_string(), ", gradient ",
               pair.gradient.shape_string()));
    const std::int64_t n = pair.input.count();
    const std::int64_t checked = std::min(n, max_elements);
    double sum = 0, norm = 0;
    for (std::int64_t k = 0; k < checked; ++k) {
      const std::int64_t i = k * n / checked;
      double* x = element(pair.input, i);
      const double before = *x;
      const double want = difference(
          [&](double offset) {
            *x = before + offset;
            return loss();
          },
          step);
      *x = before;
      const double got = *element(pair.gradient, i);
      sum += (got - want) * (got - want);
      norm += want * want;
      if (!std::isfinite(got)) sum = INFINITY;
    }
    errors.push_back({pair.name, std::sqrt(sum) / (norm > 0 ? std::sqrt(norm) : 1), checked});
  }
  return errors;
}

}  // namespace glmtune::test
