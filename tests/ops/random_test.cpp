#include "ops/random.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "ops/normal.h"
#include "support/op_case.h"

namespace glmtune::ops {
namespace {

constexpr std::uint64_t kKey = 0x0123456789ABCDEFU;

std::vector<float> draw(std::int64_t first, std::int64_t n, double deviation = 0.02) {
  std::vector<float> values(static_cast<std::size_t>(n));
  Context ctx;
  run(ctx, RandomNormal{.y = Tensor::dense(values.data(), {n}, DType::kF32, Device::kCpu),
                        .key = kKey,
                        .deviation = deviation,
                        .first = first});
  return values;
}

TEST(RandomNormal, ValuesAreThoseOfTheFormulaInTheCLibrary) {
  constexpr std::int64_t kN = 1 << 20;
  const std::vector<float> got = draw(0, kN);
  for (std::int64_t i = 0; i < kN; i += 2) {
    const Philox p = philox(kKey, static_cast<std::uint64_t>(i / 4), 0);
    const double u = (p.word[i % 4] + 1.0) * 0x1p-32, v = p.word[i % 4 + 1] * 0x1p-32;
    const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
    const auto at = static_cast<std::size_t>(i);
    ASSERT_EQ(got[at], static_cast<float>(0.02 * (radius * std::cos(angle)))) << i;
    ASSERT_EQ(got[at + 1], static_cast<float>(0.02 * (radius * std::sin(angle)))) << i;
  }
}

TEST(RandomNormal, EndsOfTheUniformRangesGiveFiniteExactValues) {
  for (const std::uint32_t u : {0U, 1U, 0x7FFFFFFFU, 0x80000000U, 0xB504F333U, 0xFFFFFFFFU}) {
    for (const std::uint32_t v :
         {0U, 1U, 0x1FFFFFFFU, 0x20000000U, 0x40000000U, 0x80000000U, 0xC0000000U, 0xFFFFFFFFU}) {
      const double radius = std::sqrt(-2 * std::log((u + 1.0) * 0x1p-32));
      const double angle = 2 * std::numbers::pi * (v * 0x1p-32);
      const NormalPair pair = box_muller(u, v);
      EXPECT_EQ(static_cast<float>(pair.first), static_cast<float>(radius * std::cos(angle)));
      EXPECT_EQ(static_cast<float>(pair.second), static_cast<float>(radius * std::sin(angle)));
    }
  }
}

TEST(RandomNormal, MomentsAreThoseOfTheNormalDistribution) {
  constexpr std::int64_t kN = 1 << 18;
  double mean = 0, square = 0, fourth = 0, lagged = 0, last = 0;
  for (const float x : draw(0, kN, 1.0)) {
    const double v = x;
    mean += v / kN;
    square += v * v / kN;
    fourth += v * v * v * v / kN;
    lagged += v * last / kN;
    last = v;
  }
  EXPECT_NEAR(mean, 0, 0.01);  // five deviations of the estimate
  EXPECT_NEAR(square, 1, 0.015);
  EXPECT_NEAR(fourth, 3, 0.1);
  EXPECT_NEAR(lagged, 0, 0.01);
}

TEST(RandomNormal, NeitherThreadsNorCutsChangeABit) {
  constexpr std::int64_t kN = 70'001;
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::vector<float> one = draw(0, kN);
  omp_set_num_threads(3);
  const std::vector<float> three = draw(0, kN);
  omp_set_num_threads(threads);
  EXPECT_EQ(one, three);
  for (const std::int64_t first : {1, 3, 511, 512, 513, 65'535}) {
    const std::vector<float> part = draw(first, 1'025);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), one.begin() + first)) << first;
  }
}

// F32 and BF16, at places that are no multiple of a block.
TEST(RandomNormal, TheDeviceDrawsTheSameBits) {
  if (!test::cuda_device_present()) GTEST_SKIP() << "no CUDA device";
  test::TestContext test(Device::kCuda);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t first : {0, 5}) {
      constexpr std::int64_t kN = 3'000'001;
      const OwnedTensor host({kN}, dtype, Device::kCpu), back({kN}, dtype, Device::kCpu);
      const OwnedTensor device({kN}, dtype, Device::kCuda);
      RandomNormal op{.y = host, .key = kKey, .deviation = 0.02, .first = first};
      run_cpu(op, {});
      op.y = device;
      run(test.ctx, op);
      copy_bytes(back, device, test.ctx.stream);
      test.synchronize();
      EXPECT_EQ(std::memcmp(host.view.data, back.view.data, host.view.bytes()), 0);
    }
  }
}

}  // namespace
}  // namespace glmtune::ops
