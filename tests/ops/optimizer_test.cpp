#include "ops/optimizer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/philox.h"
#include "support/operands.h"

namespace glmtune::ops {
namespace {

using test::Random;

Tensor view(std::vector<float>& v) {
  return Tensor::dense(v.data(), {static_cast<std::int64_t>(v.size())}, DType::kF32, Device::kCpu);
}
Tensor view(std::vector<double>& v) {
  return Tensor::dense(v.data(), {static_cast<std::int64_t>(v.size())}, DType::kF64, Device::kCpu);
}
Tensor view(std::vector<BFloat16>& v) {
  return Tensor::dense(v.data(), {static_cast<std::int64_t>(v.size())}, DType::kBF16, Device::kCpu);
}
Tensor view(std::vector<std::uint16_t>& v) {
  return Tensor::dense(v.data(), {static_cast<std::int64_t>(v.size())}, DType::kU16, Device::kCpu);
}

void update(const std::vector<AdamItem>& items, std::int64_t step, bool decoupled = true,
            bool stochastic = false) {
  Context ctx;
  run(ctx, Adam{.items = items,
                .grad_scale = {},
                .lr = 0.1,
                .beta1 = 0.9,
                .beta2 = 0.99,
                .eps = 1e-8,
                .weight_decay = 0.2,
                .step = step,
                .decoupled = decoupled,
                .stochastic_rounding = stochastic,
                .seed = 7});
}

// The textbook form: bias-corrected moments, then the step.
struct Textbook {
  double p, m = 0, v = 0;
  void update(double g, int step, bool decoupled) {
    if (!decoupled) g += 0.2 * p;
    m = 0.9 * m + 0.1 * g;
    v = 0.99 * v + 0.01 * g * g;
    const double m_hat = m / (1 - std::pow(0.9, step)), v_hat = v / (1 - std::pow(0.99, step));
    if (decoupled) p -= 0.1 * 0.2 * p;
    p -= 0.1 * m_hat / (std::sqrt(v_hat) + 1e-8);
  }
};

TEST(Adam, FollowsTheTextbookOverManySteps) {
  for (const bool decoupled : {true, false}) {
    Textbook want{.p = 1.5};
    std::vector<double> p{1.5}, g{0}, m{0}, v{0};
    std::vector<float> p32{1.5f}, g32{0}, m32{0}, v32{0};
    Random random(3);
    for (int step = 1; step <= 20; ++step) {
      g[0] = test::round_to(DType::kF32, random.normal());
      g32[0] = static_cast<float>(g[0]);
      want.update(g[0], step, decoupled);
      update({{.param = view(p), .remainder = {}, .grad = view(g), .m = view(m), .v = view(v)},
              {.param = view(p32),
               .remainder = {},
               .grad = view(g32),
               .m = view(m32),
               .v = view(v32)}},
             step, decoupled);
      EXPECT_NEAR(p[0], want.p, 1e-13);
      EXPECT_NEAR(p32[0], want.p, 2e-6);
    }
  }
}

TEST(Adam, AppliesTheMultipliersOfAnItem) {
  std::vector<double> p{1, 1}, g{0, 0}, m{0, 0}, v{0, 0};
  const auto item = [&](std::int64_t i, double lr_mult, double wd_mult) {
    const auto one = [&](std::vector<double>& x) { return view(x).slice(0, i, i + 1); };
    return AdamItem{.param = one(p),
                    .remainder = {},
                    .grad = one(g),
                    .m = one(m),
                    .v = one(v),
                    .lr_mult = lr_mult,
                    .wd_mult = wd_mult};
  };
  update({item(0, 0.5, 1), item(1, 1, 0)}, 1);
  EXPECT_DOUBLE_EQ(p[0], 0.99);
  EXPECT_DOUBLE_EQ(p[1], 1.0);
}

TEST(Adam, LeavesTheBiasCorrectionOutOnRequest) {
  std::vector<double> p{1}, g{1}, m{0}, v{0};
  const AdamItem item{
      .param = view(p), .remainder = {}, .grad = view(g), .m = view(m), .v = view(v)};
  Context ctx;
  run(ctx, Adam{.items = std::span(&item, 1),
                .grad_scale = {},
                .lr = 0.1,
                .beta1 = 0.9,
                .beta2 = 0.99,
                .eps = 1e-8,
                .weight_decay = 0,
                .step = 1,
                .bias_correction = false});
  EXPECT_NEAR(p[0], 1 - 0.1 * 0.1 / (0.1 + 1e-8), 1e-15);
}

// What torch 2.11 makes of the same weights and gradients in 60 steps: tools/make_adam_golden.py.
struct TorchBf16 {
  bool decoupled;
  std::array<std::uint16_t, 16> param, m, v;
};
constexpr TorchBf16 kTorchBf16[] = {
    {false,
     {0xbf51, 0x3e89, 0x3d0d, 0x3d20, 0xbe2f, 0x3d21, 0x3bdf, 0xbdf2, 0x3e5a, 0xbe85, 0xbe82,
      0x3e51, 0xbd8b, 0x3db1, 0xbd00, 0xbe27},
     {0x3d98, 0xbe04, 0x3dc4, 0x3a96, 0xbc6a, 0x3bd4, 0xbb1d, 0xba34, 0x3e0e, 0xbdca, 0x3daf,
      0xbb85, 0xbc91, 0x3c0b, 0xbab9, 0xba0d},
     {0x3c96, 0x3bb5, 0x3a99, 0x39ab, 0x38ae, 0x378c, 0x36b1, 0x35a9, 0x3c9a, 0x3bb5, 0x3a94,
      0x39a6, 0x38b1, 0x3792, 0x36b3, 0x35a7}},
    {true,
     {0xbf51, 0x3e89, 0x3d0d, 0x3d20, 0xbe2f, 0x3d21, 0x3bdf, 0xbdf2, 0x3e5a, 0xbe85, 0xbe82,
      0x3e51, 0xbd8b, 0x3db1, 0xbd00, 0xbe27},
     {0x3d98, 0xbe04, 0x3dc4, 0x3a96, 0xbc6a, 0x3bd4, 0xbb1d, 0xba34, 0x3e0e, 0xbdca, 0x3daf,
      0xbb85, 0xbc91, 0x3c0b, 0xbab9, 0xba0d},
     {0x3c96, 0x3bb5, 0x3a99, 0x39ab, 0x38ae, 0x378c, 0x36b1, 0x35a9, 0x3c9a, 0x3bb5, 0x3a94,
      0x39a6, 0x38b1, 0x3792, 0x36b3, 0x35a7}}};

// recipes.md 7.6: master_weights bf16 reproduces AutoModel's Adam on bf16 parameters.
TEST(Adam, RoundsEachOperationAsTorchDoesOnBf16) {
  const auto value = [](std::int64_t i, std::int64_t step) {
    const auto x = static_cast<double>((i * 7919 + step * 104729) % 257 - 128) / 128;
    return std::ldexp(x, -static_cast<int>(i % 8));
  };
  for (const TorchBf16& want : kTorchBf16) {
    std::vector<BFloat16> p(16), g(16), m(16), v(16);
    const auto fill = [&](std::vector<BFloat16>& x, std::int64_t step) {
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = BFloat16(value(static_cast<std::int64_t>(i), step));
    };
    fill(p, 0);
    Context ctx;
    for (std::int64_t step = 1; step <= 60; ++step) {
      fill(g, step);
      const AdamItem item{
          .param = view(p), .remainder = {}, .grad = view(g), .m = view(m), .v = view(v)};
      run(ctx, Adam{.items = std::span(&item, 1),
                    .grad_scale = {},
                    .lr = 1e-2,
                    .beta1 = 0.9,
                    .beta2 = 0.999,
                    .eps = 1e-8,
                    .weight_decay = want.decoupled ? 0.1 : 0.0,
                    .step = step,
                    .decoupled = want.decoupled,
                    .round_each_operation = true});
    }
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(p[i].bits, want.param[i]) << i << (want.decoupled ? " AdamW" : " Adam");
      EXPECT_EQ(m[i].bits, want.m[i]) << i << (want.decoupled ? " AdamW" : " Adam");
      EXPECT_EQ(v[i].bits, want.v[i]) << i << (want.decoupled ? " AdamW" : " Adam");
    }
  }
}

TEST(Adam, ARemainderMakesABf16ParameterAnExactFloat) {
  constexpr std::size_t n = 1000;
  std::vector<float> p(n), g(n), m(n), v(n), m2(n), v2(n);
  std::vector<BFloat16> high(n);
  std::vector<std::uint16_t> low(n);
  Random random(5);
  for (std::size_t i = 0; i < n; ++i) {
    p[i] = static_cast<float>(random.normal());
    const auto bits = std::bit_cast<std::uint32_t>(p[i]);
    high[i] = BFloat16::from_bits(static_cast<std::uint16_t>((bits + 0x8000u) >> 16));
    low[i] = static_cast<std::uint16_t>(bits);
  }
  for (int step = 1; step <= 5; ++step) {
    for (float& x : g) x = static_cast<float>(random.normal());
    update({{.param = view(p), .remainder = {}, .grad = view(g), .m = view(m), .v = view(v)}},
           step);
    update({{.param = view(high),
             .remainder = view(low),
             .grad = view(g),
             .m = view(m2),
             .v = view(v2)}},
           step);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t master =
          (static_cast<std::uint32_t>(high[i].bits) << 16) +
          static_cast<std::uint32_t>(std::int32_t{static_cast<std::int16_t>(low[i])});
      ASSERT_EQ(master, std::bit_cast<std::uint32_t>(p[i])) << i;
      // The parameter is the nearest BF16 number, ties away from zero.
      ASSERT_LE(std::abs(float(high[i]) - p[i]), std::abs(float(BFloat16(p[i])) - p[i]));
    }
  }
}

TEST(Adam, StochasticRoundingIsUnbiasedAndReproducible) {
  constexpr std::size_t n = 20000;
  std::vector<float> g(n, 1.0f);
  double first_mean = 0;
  std::vector<BFloat16> first;
  for (int round = 0; round < 2; ++round) {
    std::vector<BFloat16> p(n, BFloat16(1.0f));
    std::vector<float> m(n), v(n);
    // One step: p = 1·(1 − 0.02) − 0.1 = 0.88, between 0.87890625 and 0.8828125.
    update({{.param = view(p), .remainder = {}, .grad = view(g), .m = view(m), .v = view(v)}}, 1,
           true, true);
    double mean = 0;
    for (const BFloat16 x : p) {
      EXPECT_TRUE(float(x) == 0.87890625f || float(x) == 0.8828125f);
      mean += static_cast<double>(float(x)) / n;
    }
    EXPECT_NEAR(mean, 0.88, 5 * 0.00390625 / 2 / std::sqrt(double(n)));
    if (round == 0) {
      first = p;
      first_mean = mean;
    }
    EXPECT_EQ(mean, first_mean);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(p[i].bits, first[i].bits);
  }
}

// Known answers of the paper's reference implementation (Random123, philox4x32-10).
TEST(Philox, GivesTheKnownAnswers) {
  const Philox zero = philox(0, 0, 0);
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
  const Philox ones = philox(~0ull, ~0ull, ~0ull);
  EXPECT_EQ(ones.word[0], 0x408f276du);
  EXPECT_EQ(ones.word[1], 0x41c83b0eu);
  EXPECT_EQ(ones.word[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.word[3], 0x6d5451fdu);
}

TEST(ClipFactor, ScalesDownOnlyAndMarksWhatIsNotFinite) {
  const auto factor = [](double sum_squares, double max_norm, double loss = 1) {
    std::vector<double> f{0}, s{sum_squares}, l{loss};
    Context ctx;
    run(ctx, ClipFactor{
                 .factor = view(f), .sum_squares = view(s), .loss = view(l), .max_norm = max_norm});
    return f[0];
  };
  EXPECT_DOUBLE_EQ(factor(16, 1), 1 / (4 + 1e-6));
  EXPECT_EQ(factor(0.25, 1), 1.0);
  EXPECT_EQ(factor(16, 0), 1.0);
  EXPECT_EQ(factor(16, std::numeric_limits<double>::infinity()), 1.0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double max_norm : {1.0, 0.0})
    for (const double bad : {nan, infinity}) {
      EXPECT_TRUE(std::isnan(factor(bad, max_norm)));
      EXPECT_TRUE(std::isnan(factor(4, max_norm, bad)));
    }
}

TEST(Adam, LeavesEverythingAloneWhenTheStepIsMarked) {
  std::vector<double> p{1, 2}, g{3, 4}, m{0.5, 0.25}, v{0.1, 0.2};
  std::vector<double> scale{std::numeric_limits<double>::quiet_NaN()};
  const std::vector<AdamItem> items{
      {.param = view(p), .remainder = {}, .grad = view(g), .m = view(m), .v = view(v)}};
  Context ctx;
  run(ctx, Adam{.items = items,
                .grad_scale = view(scale),
                .lr = 1,
                .beta1 = 0.9,
                .beta2 = 0.99,
                .eps = 1e-8,
                .weight_decay = 0.1,
                .step = 1});
  EXPECT_EQ(p, (std::vector<double>{1, 2}));
  EXPECT_EQ(m, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(v, (std::vector<double>{0.1, 0.2}));
}

TEST(Adam, NamesAnItemWhoseShapesDiffer) {
  std::vector<float> p(3), g(2), m(3), v(3);
  const std::vector<AdamItem> items{
      {.param = view(p), .remainder = {}, .grad = view(g), .m = view(m), .v = view(v)}};
  try {
    update(items, 1);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "Adam: grad of item 0 is [2] F32, expected the shape of param, [3] F32");
  }
}

}  // namespace
}  // namespace glmtune::ops
