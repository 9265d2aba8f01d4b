// Gradients that are overwritten are those that come of adding to zeros, to the bit (but for the
// sign of a zero), whatever the output held before.
#include <gtest/gtest.h>

#include "base/cat.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "support/op_case.h"

namespace glmtune::test {
namespace {

using I = std::int64_t;

// Makes an op's output: what is overwritten is poisoned, what is added to is zero.
struct Gradient {
  Operands& o;
  bool overwrites;

  Tensor make(const std::string& name, Shape shape, DType dtype) const {
    return o.make(name, overwrites ? Role::kOutput : Role::kAdds, shape, dtype, Layout::kPadded,
                  [] { return 0.0; });
  }
};
using Build = std::function<Program(Operands&, const Gradient&)>;

// Every written operand of `build`, after a run.
std::vector<std::vector<double>> results(const Build& build, Device device, DType dtype, I pad,
                                         bool overwrites) {
  Operands o({.device = device, .real = dtype, .values = dtype, .pad = pad});
  const Program program = build(o, {o, overwrites});
  TestContext test(device);
  o.reset();
  for (const Step& step : program.steps) step.run(test.ctx);
  test.synchronize();
  o.read_back();
  EXPECT_EQ(o.damage(), "");
  std::vector<std::vector<double>> all;
  for (const Operand& operand : o.all())
    if (operand.role != Role::kInput) all.push_back(values_of(operand.host));
  return all;
}

void expect_same(const Build& build, Device device) {
  std::vector<DType> dtypes{DType::kF32, DType::kBF16};
  if (device == Device::kCpu) dtypes.push_back(DType::kF64);
  for (const DType dtype : dtypes)
    for (const I pad : {0, 3, 8})
      EXPECT_EQ(results(build, device, dtype, pad, true), results(build, device, dtype, pad, false))
          << name_of(dtype) << ", pad " << pad;
}

// Rows by expert; results wide and of the operands' type.
Build grouped(const std::vector<I>& rows, I N, I K) {
  return [=](Operands& o, const Gradient& gradient) {
    const auto E = static_cast<I>(rows.size());
    std::vector<I> offsets{0};
    for (const I n : rows) offsets.push_back(offsets.back() + n);
    const I R = offsets.back();
    const Tensor dy = o.input("dy", {R, N}), x = o.input("x", {R, K});
    const Tensor bounds = o.integers("offsets", {E + 1}, DType::kI32, offsets);
    Program p;
    for (const DType dtype : {o.wide(), o.real()}) {
      const std::string name = cat("dw", p.steps.size());
      p.steps.push_back(
          step(name, ops::GroupedMatmulWgrad{.dw = gradient.make(name, {E, N, K}, dtype),
                                             .dy = dy,
                                             .x = x,
                                             .offsets = bounds,
                                             .overwrite = gradient.overwrites}));
    }
    return p;
  };
}

Build dense(I T, I N, I K) {
  return [=](Operands& o, const Gradient& gradient) {
    return Program{.steps = {step("dw", ops::Matmul{.out = gradient.make("dw", {N, K}, o.wide()),
                                                    .a = o.input("dy", {T, N}),
                                                    .b = o.input("x", {T, K}),
                                                    .trans_a = true,
                                                    .beta = gradient.overwrites ? 0.0 : 1.0})}};
  };
}

Build norm(I T, I C) {
  return [=](Operands& o, const Gradient& gradient) {
    const Tensor x = o.input("x", {T, C}), weight = o.input("weight", {C});
    const Tensor rstd = o.output("rstd", {T}, o.wide());
    return Program{.steps = {step("y", ops::RmsNorm{.y = o.output("y", {T, C}),
                                                    .rstd = rstd,
                                                    .x = x,
                                                    .weight = weight,
                                                    .eps = 1e-5}),
                             step("dweight", ops::RmsNormBackward{
                                                 .dx = o.output("dx", {T, C}),
                                                 .dweight = gradient.make("dweight", {C}, o.wide()),
                                                 .dy = o.input("dy", {T, C}),
                                                 .x = x,
                                                 .weight = weight,
                                                 .rstd = rstd,
                                                 .residual = {},
                                                 .overwrite_dweight = gradient.overwrites})}};
  };
}

class OverwritingAsAdding : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam() == Device::kCuda && !cuda_device_present())
      GTEST_SKIP() << "no CUDA device (or a build without CUDA)";
  }
};

TEST_P(OverwritingAsAdding, InWeightGradientsOfExperts) {
  expect_same(grouped({0, 7, 1, 0, 40, 0}, 33, 17), GetParam());
  expect_same(grouped({0, 0}, 16, 24), GetParam());
  expect_same(grouped({3, 65, 0, 64, 128, 130}, 264, 520), GetParam());
  expect_same(grouped({700, 0, 900}, 136, 264), GetParam());
  expect_same(grouped(std::vector<I>(70, 5), 72, 40), GetParam());
}

TEST_P(OverwritingAsAdding, InWeightGradientsOfLinears) {
  expect_same(dense(5, 7, 3), GetParam());
  expect_same(dense(0, 4, 3), GetParam());
  expect_same(dense(300, 512, 256), GetParam());
  expect_same(dense(2048, 64, 136), GetParam());
}

TEST_P(OverwritingAsAdding, InGradientsOfNormWeights) {
  expect_same(norm(0, 5), GetParam());
  expect_same(norm(3, 33), GetParam());
  expect_same(norm(140, 512), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Devices, OverwritingAsAdding, testing::Values(Device::kCpu, Device::kCuda),
                         [](const auto& p) {
                           return std::string(p.param == Device::kCpu ? "Cpu" : "Cuda");
                         });

}  // namespace
}  // namespace glmtune::test
