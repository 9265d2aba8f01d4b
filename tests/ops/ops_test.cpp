// Behaviour of single ops that the op cases do not show: edges, ties, messages, threads.
#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/fast_math.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/rows.h"
#include "support/op_cases.h"

namespace glmtune::ops {
namespace {

using test::Random;

OwnedTensor filled(Shape shape, std::uint64_t seed, DType dtype = DType::kF32) {
  OwnedTensor t(shape, dtype, Device::kCpu);
  Random random(seed);
  for (std::int64_t i = 0; i < t.view.count(); ++i)
    if (dtype == DType::kF32)
      t.view.as<float>()[i] = static_cast<float>(random.normal());
    else
      t.view.as<BFloat16>()[i] = BFloat16(random.normal());
  return t;
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(FastExp, IsWithinTwoUlpAndReachesTheEnds) {
  double worst = 0;
  for (double x = -103; x < 88.7; x += 0.00037) {
    const auto argument = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(argument));
    const auto rounded = static_cast<float>(exact);
    const double ulp =
        static_cast<double>(std::nextafter(rounded, std::numeric_limits<float>::infinity())) -
        static_cast<double>(rounded);
    worst = std::max(worst, std::abs(static_cast<double>(fast_exp(argument)) - exact) / ulp);
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_EQ(fast_exp(0.0f), 1.0f);
  EXPECT_EQ(fast_exp(-1000.0f), 0.0f);
  EXPECT_EQ(fast_exp(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(fast_exp(1000.0f), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Matmul, GivesTheSameBitsForEveryNumberOfThreads) {
  const OwnedTensor a = filled({601, 523}, 1), b = filled({389, 523}, 2);
  OwnedTensor one({601, 389}, DType::kF32, Device::kCpu),
      three({601, 389}, DType::kF32, Device::kCpu);
  const int before = omp_get_max_threads();
  Context ctx;
  omp_set_num_threads(1);
  run(ctx, Matmul{.out = one, .a = a, .b = b, .trans_b = true});
  omp_set_num_threads(3);
  run(ctx, Matmul{.out = three, .a = a, .b = b, .trans_b = true});
  omp_set_num_threads(before);
  EXPECT_EQ(std::memcmp(one.view.data, three.view.data, one.view.bytes()), 0);
}

TEST(Matmul, RoundsNarrowResultsOnceHoweverLongTheSum) {
  const OwnedTensor a = filled({3, 5000}, 1, DType::kBF16), b = filled({7, 5000}, 2, DType::kBF16);
  OwnedTensor narrow({3, 7}, DType::kBF16, Device::kCpu), wide({3, 7}, DType::kF32, Device::kCpu);
  Context ctx;
  run(ctx, Matmul{.out = narrow, .a = a, .b = b, .trans_b = true});
  run(ctx, Matmul{.out = wide, .a = a, .b = b, .trans_b = true});
  for (int i = 0; i < 21; ++i)
    EXPECT_EQ(narrow.view.as<BFloat16>()[i].bits, BFloat16(wide.view.as<float>()[i]).bits);
}

TEST(Matmul, NamesShapesThatDoNotFit) {
  const OwnedTensor a = filled({3, 5}, 1), b = filled({7, 4}, 2);
  OwnedTensor out({3, 7}, DType::kF32, Device::kCpu);
  Context ctx;
  EXPECT_EQ(error_of([&] { run(ctx, Matmul{.out = out, .a = a, .b = b, .trans_b = true}); }),
            "Matmul: b (transposed) is [7, 4] F32, expected [7, 5]");
  const OwnedTensor other = filled({7, 5}, 2, DType::kBF16);
  EXPECT_EQ(error_of([&] { run(ctx, Matmul{.out = out, .a = a, .b = other, .trans_b = true}); }),
            "Matmul: b is [7, 5] BF16, expected F32");
}

TEST(GroupedMatmul, RefusesOffsetsBeyondTheRows) {
  const OwnedTensor a = filled({4, 3}, 1), b = filled({2, 3, 5}, 2);
  OwnedTensor out({4, 5}, DType::kF32, Device::kCpu), offsets({3}, DType::kI32, Device::kCpu);
  offsets.view.as<std::int32_t>()[1] = 3;
  offsets.view.as<std::int32_t>()[2] = 9;
  Context ctx;
  EXPECT_EQ(
      error_of([&] { run(ctx, GroupedMatmul{.out = out, .a = a, .b = b, .offsets = offsets}); }),
      "GroupedMatmul: offsets[1:3] are 3, 9, expected ascending numbers of at most 4 rows");
}

TEST(Embedding, NamesThePositionOfAnIdOutsideTheVocabulary) {
  const OwnedTensor table = filled({5, 3}, 1);
  OwnedTensor y({4, 3}, DType::kF32, Device::kCpu), ids({4}, DType::kI32, Device::kCpu);
  ids.view.as<std::int32_t>()[2] = 5;
  Context ctx;
  EXPECT_EQ(error_of([&] { run(ctx, Embedding{.y = y, .ids = ids, .table = table}); }),
            "Embedding: the token id at position 2 is 5, expected 0 to 4, the rows of the "
            "embedding table");
}

TEST(CrossEntropy, SurvivesLargeLogitsAndNamesABadLabel) {
  OwnedTensor z({2, 3}, DType::kF32, Device::kCpu), losses({2}, DType::kF32, Device::kCpu);
  OwnedTensor dz({2, 3}, DType::kF32, Device::kCpu), labels({2}, DType::kI32, Device::kCpu);
  const float values[] = {3000, 0, -3000, -500, -500, -500};
  std::memcpy(z.view.data, values, sizeof values);
  labels.view.as<std::int32_t>()[0] = 1;
  Context ctx;
  const CrossEntropy op{
      .losses = losses, .dlogits = dz, .logits = z, .labels = labels, .grad_scale = 2};
  run(ctx, op);
  EXPECT_EQ(losses.view.as<float>()[0], 3000.0f);
  EXPECT_NEAR(losses.view.as<float>()[1], std::log(3.0), 1e-6);
  EXPECT_EQ(dz.view.as<float>()[0], 2.0f);
  EXPECT_EQ(dz.view.as<float>()[1], -2.0f);
  EXPECT_EQ(dz.view.as<float>()[2], 0.0f);
  labels.view.as<std::int32_t>()[1] = -100;
  EXPECT_EQ(error_of([&] { run(ctx, op); }),
            "CrossEntropy: the label of row 1 is -100, expected 0 to 2");
}

// recipes.md 5.9: angles [pi/2, 0] tell the layouts apart. 51819 is 32989 quarter turns to within
// 2e-5, one more than whole turns.
TEST(Rope, AQuarterTurnOfTheFirstPairTellsTheLayouts) {
  Context ctx;
  OwnedTensor p({1}, DType::kI32, Device::kCpu);
  p.view.as<std::int32_t>()[0] = 51819;
  const auto turned = [&](RopeLayout layout) {
    OwnedTensor x({1, 1, 4}, DType::kF64, Device::kCpu);
    for (int i = 0; i < 4; ++i) x.view.as<double>()[i] = i + 1;
    run(ctx, Rope{.x = x, .positions = p, .theta = 1e30, .layout = layout});
    const double* at = x.view.as<double>();
    return std::array{at[0], at[1], at[2], at[3]};
  };
  constexpr std::array kHalf{-3.0, 2.0, 1.0, 4.0}, kPairs{-2.0, 1.0, 3.0, 4.0};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(turned(RopeLayout::kHalfSplit)[i], kHalf[i], 1e-4) << i;
    EXPECT_NEAR(turned(RopeLayout::kInterleaved)[i], kPairs[i], 1e-4) << i;
  }
}

TEST(Rope, TurnsPairsByPositionTimesFrequency) {
  for (const RopeLayout layout : {RopeLayout::kInterleaved, RopeLayout::kHalfSplit}) {
    OwnedTensor x({1, 1, 4}, DType::kF64, Device::kCpu), p({1}, DType::kI32, Device::kCpu);
    const bool interleaved = layout == RopeLayout::kInterleaved;
    double* v = x.view.as<double>();
    for (int i = 0; i < 4; ++i) v[i] = i + 1;
    p.view.as<std::int32_t>()[0] = 3;
    Context ctx;
    run(ctx, Rope{.x = x, .positions = p, .theta = 100, .layout = layout});
    // Frequencies 1 and 1/10.
    const double a = interleaved ? 1 : 1, b = interleaved ? 2 : 3;
    EXPECT_NEAR(v[0], a * std::cos(3) - b * std::sin(3), 1e-12);
    EXPECT_NEAR(v[interleaved ? 1 : 2], b * std::cos(3) + a * std::sin(3), 1e-12);
    const double c = interleaved ? 3 : 2, d = 4;
    EXPECT_NEAR(v[interleaved ? 2 : 1], c * std::cos(0.3) - d * std::sin(0.3), 1e-12);
    EXPECT_NEAR(v[3], d * std::cos(0.3) + c * std::sin(0.3), 1e-12);
  }
}

TEST(Copy, ReadsHalfPrecision) {
  const std::uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x8000, 0x7bff, 0x7c00, 0x3555};
  float floats[7];
  Context ctx;
  run(ctx, Copy{.dst = Tensor::dense(floats, {7}, DType::kF32, Device::kCpu),
                .src = Tensor::dense(const_cast<std::uint16_t*>(halves), {7}, DType::kF16,
                                     Device::kCpu)});
  EXPECT_EQ(floats[0], 1.0f);
  EXPECT_EQ(floats[1], -2.0f);
  EXPECT_EQ(floats[2], 0x1p-24f);
  EXPECT_TRUE(floats[3] == 0 && std::signbit(floats[3]));
  EXPECT_EQ(floats[4], 65504.0f);
  EXPECT_EQ(floats[5], std::numeric_limits<float>::infinity());
  EXPECT_FLOAT_EQ(floats[6], 0.33325195f);
}

TEST(Rows, NameAnIndexOutsideTheSource) {
  const OwnedTensor x = filled({3, 2}, 1);
  OwnedTensor y({2, 2}, DType::kF32, Device::kCpu), index({2}, DType::kI32, Device::kCpu);
  index.view.as<std::int32_t>()[1] = 6;
  Context ctx;
  EXPECT_EQ(error_of([&] { run(ctx, GatherRows{.y = y, .x = x, .index = index}); }),
            "GatherRows: index[1] is 6, expected 0 to 2");
}

TEST(Checks, NameFoundAndExpected) {
  const OwnedTensor x = filled({3, 4}, 1), w = filled({5}, 2);
  OwnedTensor y({3, 4}, DType::kF32, Device::kCpu), rstd({3}, DType::kF32, Device::kCpu);
  Context ctx;
  EXPECT_EQ(
      error_of([&] { run(ctx, RmsNorm{.y = y, .rstd = rstd, .x = x, .weight = w, .eps = 1e-5}); }),
      "RmsNorm: weight is [5] F32, expected [4] F32");
  EXPECT_EQ(error_of([&] { run(ctx, Add{.out = y, .a = x, .b = {}}); }),
            "Add: b is absent, expected the shape and type of out, [3, 4] F32");
}

TEST(EveryOp, GivesTheSameBitsForEveryNumberOfThreads) {
  const int before = omp_get_max_threads();
  for (const test::OpCase& c : test::all_op_cases(test::Sizes::kOdd)) {
    test::Operands one({.real = DType::kF32, .values = DType::kF32});
    test::Operands three({.real = DType::kF32, .values = DType::kF32});
    test::TestContext context(Device::kCpu);
    for (const auto& [operands, threads] : {std::pair{&one, 1}, std::pair{&three, 3}}) {
      omp_set_num_threads(threads);
      const test::Program program = c.build(*operands);
      for (const test::Step& s : program.steps) s.run(context.ctx);
    }
    for (std::size_t i = 0; i < one.all().size(); ++i)
      EXPECT_EQ(std::memcmp(one.all()[i].memory.data(), three.all()[i].memory.data(),
                            one.all()[i].memory.size()),
                0)
          << c.name << ", " << one.all()[i].name;
  }
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace glmtune::ops
