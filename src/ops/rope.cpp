#include "ops/rope.h"

#include <cmath>
#include <vector>

#include "ops/expect.h"
#include "ops/rows_of.h"

namespace glmtune::ops {

void Rope::check() const {
  expect_real("Rope", "x", x, {kAny, kAny, kAny});
  if (x.size(2) % 2 != 0) fail("Rope: x is " + x.shape_string() + ", expected an even last size");
  expect("Rope", "positions", positions, {x.size(0)}, DType::kI32);
}

void run_cpu(const Rope& op, Tensor) {
  dispatch_real(op.x.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const std::int64_t tokens = op.x.size(0), heads = op.x.size(1), half = op.x.size(2) / 2;
    std::vector<W> frequencies(static_cast<std::size_t>(half));
    for (std::int64_t j = 0; j < half; ++j)
      frequencies[static_cast<std::size_t>(j)] = rope_frequency<W>(op.theta, j, 2 * half);
    // Elements 2j and 2j+1, or j and j+half.
    const bool interleaved = op.layout == RopeLayout::kInterleaved;
    const std::int64_t step = interleaved ? 2 : 1, partner = interleaved ? 1 : half;
#pragma omp parallel if (op.x.count() > kParallelElements)
    {
      std::vector<W> cosines(static_cast<std::size_t>(half)), sines(cosines);
      W *const cosine = cosines.data(), *const sine = sines.data();
#pragma omp for
      for (std::int64_t t = 0; t < tokens; ++t) {
        const W position = W(op.positions.as<std::int32_t>()[t]);
        for (std::int64_t j = 0; j < half; ++j) {
          const W angle = position * frequencies[static_cast<std::size_t>(j)];
          cosine[j] = std::cos(angle);
          sine[j] = op.inverse ? -std::sin(angle) : std::sin(angle);
        }
        for (std::int64_t h = 0; h < heads; ++h) {
          T* x = op.x.row<T>(t) + h * op.x.stride(1);
          for (std::int64_t j = 0; j < half; ++j) {
            const W a = W(x[j * step]), b = W(x[j * step + partner]);
            x[j * step] = T(a * cosine[j] - b * sine[j]);
            x[j * step + partner] = T(b * cosine[j] + a * sine[j]);
          }
        }
      }
    }
  });
}

}  // namespace glmtune::ops
