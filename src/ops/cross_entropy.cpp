#include "ops/cross_entropy.h"

#include <cmath>

#include "base/cat.h"
#include "ops/expect.h"
#include "ops/fast_math.h"
#include "ops/rows_of.h"

namespace glmtune::ops {

void CrossEntropy::check() const {
  expect_real("CrossEntropy", "logits", logits, {kAny, kAny});
  if (logits.size(1) == 0)
    fail("CrossEntropy: logits are " + logits.shape_string() + ", expected a vocabulary");
  expect("CrossEntropy", "losses", losses, {logits.size(0)}, wide(logits.dtype));
  expect("CrossEntropy", "labels", labels, {logits.size(0)}, DType::kI32);
  if (dlogits.defined()) expect_same("CrossEntropy", "dlogits", dlogits, "logits", logits);
}

void run_cpu(const CrossEntropy& op, Tensor) {
  const std::int64_t rows = op.logits.size(0), V = op.logits.size(1);
  const auto* labels = op.labels.as<std::int32_t>();
  for (std::int64_t r = 0; r < rows; ++r)
    if (labels[r] < 0 || labels[r] >= V)
      fail(cat("CrossEntropy: the label of row ", r, " is ", labels[r], ", expected 0 to ", V - 1));
  dispatch_real(op.logits.dtype, [&]<class T>(T) {
    using W = Wide<T>;
#pragma omp parallel for if (op.logits.count() > kParallelElements)
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* z = op.logits.row<T>(r);
      W largest = W(z[0]);
#pragma omp simd reduction(max : largest)
      for (std::int64_t v = 0; v < V; ++v) largest = W(z[v]) > largest ? W(z[v]) : largest;
      W sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t v = 0; v < V; ++v) sum += fast_exp(W(z[v]) - largest);
      op.losses.as<W>()[r] = (largest - W(z[labels[r]])) + std::log(sum);
      if (!op.dlogits.defined()) continue;
      T* dz = op.dlogits.row<T>(r);
      const W scale = W(op.grad_scale) / sum;
      const W own = fast_exp(W(z[labels[r]]) - largest);
#pragma omp simd
      for (std::int64_t v = 0; v < V; ++v) dz[v] = T(fast_exp(W(z[v]) - largest) * scale);
      dz[labels[r]] = T((own / sum - W(1)) * W(op.grad_scale));
    }
  });
}

}  // namespace glmtune::ops
