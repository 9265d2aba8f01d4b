#include "ops/split_bf16.h"

#include "ops/expect.h"
#include "ops/rows_of.h"

namespace glmtune::ops {

void SplitBf16::check() const {
  expect("SplitBf16", "x", x, {kAny, kAny}, DType::kF32);
  expect("SplitBf16", "y", y, {x.size(0), 3 * x.size(1)}, DType::kBF16);
}

void run_cpu(const SplitBf16& op, Tensor) {
  const RowsOf<float> x(op.x);
  const RowsOf<BFloat16> y(op.y);
  const std::int64_t C = x.columns;
#pragma omp parallel for if (op.x.count() > kParallelElements)
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < C; ++c) {
      float rest = x[r][c];
      for (std::int64_t part = 0; part < 3; ++part) {
        const BFloat16 b(rest);
        y[r][part * C + c] = b;
        rest -= static_cast<float>(b);
      }
    }
  }
}

}  // namespace glmtune::ops
