#include "ops/random.h"

#include <algorithm>

#include "base/cat.h"
#include "ops/expect.h"
#include "ops/normal.h"
#include "ops/rows_of.h"

namespace glmtune::ops {
namespace {

// Philox blocks handled together: loops over them vectorise.
constexpr std::int64_t kBlocks = 128;
constexpr std::int64_t kValues = 4 * kBlocks;

// The values of blocks [first_block, first_block + kBlocks).
void fill(std::uint64_t key, std::int64_t first_block, double deviation, float* out) {
  std::uint32_t word[4][kBlocks];
  float value[4][kBlocks];
  for (std::int64_t b = 0; b < kBlocks; ++b) {
    const Philox p = philox(key, static_cast<std::uint64_t>(first_block + b), 0);
    for (int i = 0; i < 4; ++i) word[i][b] = p.word[i];
  }
  for (int i = 0; i < 4; i += 2) {
    for (std::int64_t b = 0; b < kBlocks; ++b) {
      const NormalPair pair = box_muller(word[i][b], word[i + 1][b]);
      value[i][b] = static_cast<float>(deviation * pair.first);
      value[i + 1][b] = static_cast<float>(deviation * pair.second);
    }
  }
  for (std::int64_t b = 0; b < kBlocks; ++b)
    for (int i = 0; i < 4; ++i) out[4 * b + i] = value[i][b];
}

}  // namespace

void RandomNormal::check() const {
  expect_real("RandomNormal", "y", y, {kAny});
  if (!y.contiguous())
    fail(cat("RandomNormal: y, ", y.shape_string(), ", is strided, expected contiguous"));
  if (first < 0) fail(cat("RandomNormal: first is ", first, ", expected 0 or more"));
}

void run_cpu(const RandomNormal& op, Tensor) {
  const std::int64_t n = op.y.count();
  if (n == 0) return;
  const std::int64_t begin = op.first / kValues, end = (op.first + n + kValues - 1) / kValues;
  dispatch_real(op.y.dtype, [&]<class T>(T) {
    T* y = op.y.as<T>();
#pragma omp parallel for schedule(static) if (n > kParallelElements)
    for (std::int64_t group = begin; group < end; ++group) {
      float values[kValues];
      fill(op.key, group * kBlocks, op.deviation, values);
      const std::int64_t at = group * kValues - op.first;  // of values[0] in y
      const std::int64_t from = std::max<std::int64_t>(0, -at), to = std::min(kValues, n - at);
      for (std::int64_t i = from; i < to; ++i) y[at + i] = static_cast<T>(values[i]);
    }
  });
}

}  // namespace glmtune::ops
