#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "ops/optimizer.h"
#include "support/op_case.h"

namespace glmtune::test {
namespace {

template <class T>
OwnedTensor to_device(std::vector<T>& values, DType dtype) {
  const auto n = static_cast<std::int64_t>(values.size());
  OwnedTensor t({n}, dtype, Device::kCuda);
  copy_bytes(t, Tensor::dense(values.data(), {n}, dtype, Device::kCpu));
  return t;
}

template <class T>
std::vector<T> to_host(const Tensor& t) {
  std::vector<T> values(static_cast<std::size_t>(t.count()));
  copy_bytes(Tensor::dense(values.data(), {t.count()}, t.dtype, Device::kCpu), t);
  return values;
}

// No multiples of a pack, nor of the run that a block works through. Beside a float parameter: the
// two kernels may contract the update's products differently, by an ulp a step.
TEST(AdamOnCuda, ARemainderKeepsAFloatOfABf16ParameterAtEverySize) {
  if (!cuda_device_present()) GTEST_SKIP() << "no CUDA device (or a build without CUDA)";
  TestContext context(Device::kCuda);
  Random random(5);
  for (const std::size_t n : {1, 7, 9, 33, 16384 + 5, 3 * 16384 - 1}) {
    std::vector<float> p(n), g(n), zeros(n);
    std::vector<BFloat16> high(n);
    std::vector<std::uint16_t> low(n);
    for (std::size_t i = 0; i < n; ++i) {
      p[i] = static_cast<float>(random.normal());
      const auto bits = std::bit_cast<std::uint32_t>(p[i]);
      high[i] = BFloat16::from_bits(static_cast<std::uint16_t>((bits + 0x8000u) >> 16));
      low[i] = static_cast<std::uint16_t>(bits);
    }
    const OwnedTensor wide = to_device(p, DType::kF32), param = to_device(high, DType::kBF16),
                      remainder = to_device(low, DType::kU16);
    const OwnedTensor m = to_device(zeros, DType::kF32), v = to_device(zeros, DType::kF32),
                      m2 = to_device(zeros, DType::kF32), v2 = to_device(zeros, DType::kF32);
    for (int step = 1; step <= 3; ++step) {
      for (float& x : g) x = static_cast<float>(random.normal());
      const OwnedTensor grad = to_device(g, DType::kF32);
      const std::vector<ops::AdamItem> items{
          {.param = wide, .remainder = {}, .grad = grad, .m = m, .v = v},
          {.param = param, .remainder = remainder, .grad = grad, .m = m2, .v = v2}};
      run(context.ctx, ops::Adam{.items = items,
                                 .grad_scale = {},
                                 .lr = 0.1,
                                 .beta1 = 0.9,
                                 .beta2 = 0.99,
                                 .eps = 1e-8,
                                 .weight_decay = 0.2,
                                 .step = step});
      context.synchronize();
    }
    const auto want = to_host<float>(wide);
    const auto upper = to_host<BFloat16>(param);
    const auto lower = to_host<std::uint16_t>(remainder);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t master =
          (static_cast<std::uint32_t>(upper[i].bits) << 16) +
          static_cast<std::uint32_t>(std::int32_t{static_cast<std::int16_t>(lower[i])});
      const auto value = std::bit_cast<float>(master);
      ASSERT_NEAR(value, want[i], 1e-6 * (1 + std::abs(want[i]))) << i << " of " << n;
      // The parameter is the nearest BF16 number, ties away from zero.
      ASSERT_EQ(upper[i].bits, static_cast<std::uint16_t>((master + 0x8000u) >> 16));
    }
  }
}

TEST(SumSquaresOnCuda, AddsSquaresBeyondTheRangeOfFloat) {
  if (!cuda_device_present()) GTEST_SKIP() << "no CUDA device (or a build without CUDA)";
  TestContext context(Device::kCuda);
  std::vector<float> values(1003, 1e30f);
  const OwnedTensor x = to_device(values, DType::kF32), sum({1}, DType::kF64, Device::kCuda);
  zero_bytes(sum);
  const std::vector<Tensor> items{x};
  run(context.ctx, ops::SumSquares{.out = sum, .items = items});
  context.synchronize();
  const double want = 1003.0 * static_cast<double>(1e30f) * static_cast<double>(1e30f);
  EXPECT_NEAR(to_host<double>(sum)[0] / want, 1, 1e-12);
}

}  // namespace
}  // namespace glmtune::test
