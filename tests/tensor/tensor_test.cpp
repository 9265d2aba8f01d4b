#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include "tensor/arena.h"

namespace glmtune {
namespace {

TEST(Tensor, SliceIsAViewWithTheParentsStrides) {
  const OwnedTensor t({3, 8}, DType::kF32, Device::kCpu);
  const Tensor s = t.view.slice(1, 2, 5);
  EXPECT_EQ(s.size(1), 3);
  EXPECT_EQ(s.stride(0), 8);
  EXPECT_EQ(s.as<float>(), t.view.as<float>() + 2);
  EXPECT_FALSE(s.contiguous());
  EXPECT_THROW((void)t.view.slice(1, 2, 9), Error);
}

TEST(Tensor, TransposeKeepsTheInnermostDimension) {
  const OwnedTensor t({3, 4, 8}, DType::kF32, Device::kCpu);
  const Tensor s = t.view.transpose(0, 1);
  EXPECT_EQ(s.size(0), 4);
  EXPECT_EQ(s.stride(0), 8);
  EXPECT_EQ(s.stride(1), 32);
  EXPECT_THROW((void)t.view.transpose(1, 2), Error);
}

TEST(Arena, PeakOfADryRunEqualsTheRealOne) {
  const auto use = [](Arena& a) {
    Scope outer(a);
    a.make({3, 5}, DType::kBF16);
    {
      Scope inner(a);
      a.make({100}, DType::kF64);
    }
    a.make({7}, DType::kF32);
  };
  Arena meta(std::size_t{1} << 40, Device::kMeta);
  use(meta);
  Arena real(meta.peak(), Device::kCpu);
  use(real);
  EXPECT_EQ(meta.peak(), real.peak());
  EXPECT_EQ(real.mark(), 0u);
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(BFloat16(1.00390625f).bits, BFloat16(1.0f).bits);
  EXPECT_EQ(BFloat16(1.01171875f).bits, 0x3f82);
  EXPECT_NE(static_cast<float>(BFloat16(__builtin_nanf(""))), static_cast<float>(BFloat16(0.0f)));
}

}  // namespace
}  // namespace glmtune
