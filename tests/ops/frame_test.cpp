// The op frame itself: that each check notices what it is there to notice.
#include <gtest/gtest.h>

#include <cmath>

#include "support/gradcheck.h"
#include "support/op_case.h"

namespace glmtune::test {
namespace {

enum class Fault : std::uint8_t {
  kNone,
  kPastTheEnd,
  kInGap,
  kUnwritten,
  kChangesInput,
  kOtherBits,
  kImprecise,
  kWorkspace,
};

// y = x², and its gradient, with a fault where one is asked for.
struct Square {
  Tensor y, x;
  Fault fault;
  int* runs;
  void check() const {}
  std::size_t workspace_bytes(Device) const { return 256; }
};
struct SquareBackward {
  Tensor dx, dy, x;
  double factor;
  void check() const {}
};

void run_cpu(const Square& op, Tensor workspace) {
  ++*op.runs;
  dispatch_real(op.x.dtype, [&]<class T>(T) {
    const std::int64_t rows = op.x.size(0), columns = op.x.size(1);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        if (op.fault == Fault::kUnwritten && r == 1 && c == 1) continue;
        const double x = static_cast<double>(op.x.row<T>(r)[c]);
        const double wrong = op.fault == Fault::kImprecise && sizeof(T) == 4      ? 1e-4
                             : op.fault == Fault::kOtherBits && *op.runs % 2 == 0 ? 1e-3
                                                                                  : 0;
        op.y.row<T>(r)[c] = T(x * x * (1 + wrong));
      }
    if (op.fault == Fault::kPastTheEnd) op.y.row<T>(rows - 1)[op.y.stride(0)] = T(1.0);
    if (op.fault == Fault::kInGap) op.y.row<T>(0)[columns] = T(1.0);
    if (op.fault == Fault::kChangesInput) op.x.row<T>(0)[0] = T(7.0);
    if (op.fault == Fault::kWorkspace) workspace.as<std::uint8_t>()[300] = 1;
  });
}
void run_cpu(const SquareBackward& op, Tensor) {
  for (std::int64_t r = 0; r < op.x.size(0); ++r)
    for (std::int64_t c = 0; c < op.x.size(1); ++c)
      op.dx.row<double>(r)[c] = op.factor * op.dy.row<double>(r)[c] * op.x.row<double>(r)[c];
}
[[maybe_unused]] void run_cuda(Context&, const Square&, Tensor) {}
[[maybe_unused]] void run_cuda(Context&, const SquareBackward&, Tensor) {}

OpCase square(Fault fault) {
  return {.name = "Square", .build = [=](Operands& o) {
            static int runs = 0;
            return Program{.steps = {step("Square", Square{.y = o.output("y", {3, 5}),
                                                           .x = o.input("x", {3, 5}),
                                                           .fault = fault,
                                                           .runs = &runs})}};
          }};
}

OpCase square_gradient(double factor) {
  return {.name = "Square", .build = [=](Operands& o) {
            static int runs = 0;
            const Tensor x = o.input("x", {3, 5});
            return Program{
                .steps = {step("Square", Square{.y = o.output("y", {3, 5}),
                                                .x = x,
                                                .fault = Fault::kNone,
                                                .runs = &runs}),
                          step("SquareBackward", SquareBackward{.dx = o.output("dx", {3, 5}),
                                                                .dy = o.input("dy", {3, 5}),
                                                                .x = x,
                                                                .factor = factor})},
                .seeds = {{"y", "dy"}},
                .gradients = {{"x", "dx"}}};
          }};
}

std::string outputs(Fault fault, std::int64_t pad) {
  return check_outputs(square(fault), DType::kF64, pad, Device::kCpu);
}

TEST(OpFrame, FindsNothingWrongWithACorrectOp) {
  EXPECT_EQ(outputs(Fault::kNone, 0), "");
  EXPECT_EQ(outputs(Fault::kNone, 3), "");
  EXPECT_EQ(check_precision(square(Fault::kNone), DType::kBF16), "");
  EXPECT_EQ(check_precision(square(Fault::kNone), DType::kF32), "");
}

TEST(OpFrame, NoticesWritesOutsideTheOutputs) {
  EXPECT_NE(outputs(Fault::kPastTheEnd, 0), "");
  EXPECT_NE(outputs(Fault::kInGap, 3), "");
  EXPECT_NE(outputs(Fault::kChangesInput, 0), "");
  EXPECT_NE(outputs(Fault::kWorkspace, 0), "");
}

TEST(OpFrame, NoticesElementsLeftUnwritten) {
  EXPECT_NE(outputs(Fault::kUnwritten, 0), "");
}

TEST(OpFrame, NoticesOtherBitsInASecondRun) {
  EXPECT_NE(outputs(Fault::kOtherBits, 0), "");
}

TEST(OpFrame, NoticesMoreErrorThanTheTypeExplains) {
  EXPECT_NE(check_precision(square(Fault::kImprecise), DType::kF32), "");
}

TEST(OpFrame, NoticesAGradientThatIsOffByAMillionth) {
  EXPECT_EQ(check_gradients(square_gradient(2)), "");
  EXPECT_NE(check_gradients(square_gradient(2.000002)), "");
}

TEST(Gradcheck, ComparesTensorsOfAnyScalarFunction) {
  double x[] = {0.3, -1.2, 2.0}, g[3];
  for (int i = 0; i < 3; ++i) g[i] = std::cos(x[i]);
  const auto loss = [&] { return std::sin(x[0]) + std::sin(x[1]) + std::sin(x[2]); };
  const GradientPair pair{"x", Tensor::dense(x, {3}, DType::kF64, Device::kCpu),
                          Tensor::dense(g, {3}, DType::kF64, Device::kCpu)};
  EXPECT_LT(gradcheck(loss, {pair})[0].rel_l2, 1e-11);
  g[1] += 1e-4;
  EXPECT_GT(gradcheck(loss, {pair})[0].rel_l2, 1e-5);
  EXPECT_EQ(gradcheck(loss, {pair}, 2)[0].checked, 2);
}

}  // namespace
}  // namespace glmtune::test
