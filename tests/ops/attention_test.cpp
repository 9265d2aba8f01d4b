#include "ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/indexer.h"
#include "support/attention_operands.h"
#include "support/gradcheck.h"
#include "support/op_case.h"

namespace glmtune::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Scenario {
  std::vector<std::int64_t> bounds;
  std::int64_t T, H = 2, Dn = 5, Dr = 3, Dv = 7;
  bool masked = false;
  double score_scale = 0.4;
  DType dtype = DType::kF64;
};

// Forward and backward of one row of documents with guarded, strided operands.
struct Attention {
  Operands o;
  ops::CausalAttention forward;
  ops::CausalAttentionBackward backward;
  TestContext test{Device::kCpu};

  explicit Attention(const Scenario& s)
      : o({.real = s.dtype, .values = s.dtype == DType::kF64 ? DType::kF32 : s.dtype, .pad = 3}),
        forward(make_forward(o, s)),
        backward(test::backward_of(o, forward)) {}

  void run_both() {
    run(test.ctx, forward);
    run(test.ctx, backward);
  }
  bool visible(std::int64_t begin, std::int64_t t, std::int64_t j) const {
    return !forward.mask.defined() ||
           (forward.mask.row<std::uint32_t>(t)[(j - begin) / 32] >> ((j - begin) % 32) & 1) != 0;
  }

 private:
  static ops::CausalAttention make_forward(Operands& o, const Scenario& s) {
    ops::Documents d{.bounds = {}, .count = static_cast<std::int64_t>(s.bounds.size()) / 2};
    d.bounds = o.integers("bounds", {d.count, 2}, DType::kI32, s.bounds);
    d.host = d.bounds.as<std::int32_t>();
    for (std::int64_t i = 0; i < d.count; ++i)
      d.max_length = std::max<std::int64_t>(d.max_length, d.host[2 * i + 1] - d.host[2 * i]);
    std::vector<std::int64_t> words;
    const std::int64_t W = (d.max_length + 31) / 32;
    for (std::int64_t i = 0; i < s.T * W; ++i)
      words.push_back(
          static_cast<std::int64_t>(o.random().bits() & o.random().bits() & 0xffffffff));
    return {.out = o.output("out", {s.T, s.H, s.Dv}),
            .lse = o.output("lse", {s.H, s.T}, o.wide()),
            .q = o.input("q", {s.T, s.H, s.Dn + s.Dr}),
            .k_nope = o.input("k_nope", {s.T, s.H, s.Dn}),
            .k_rope = o.input("k_rope", {s.T, s.Dr}),
            .v = o.input("v", {s.T, s.H, s.Dv}),
            .mask = s.masked ? o.integers("mask", {s.T, W}, DType::kU32, words) : Tensor{},
            .documents = d,
            .scale = s.score_scale};
  }
};

double at(const Tensor& t, std::int64_t row, std::int64_t h, std::int64_t c) {
  return t.row<double>(row)[h * t.stride(1) + c];
}

// The formulas of the header, element by element.
void expect_forward_as_defined(const Attention& a) {
  const ops::CausalAttention& f = a.forward;
  const std::int64_t Dn = f.k_nope.size(2), Dr = f.k_rope.size(1);
  for (std::int64_t d = 0; d < f.documents.count; ++d) {
    const std::int64_t begin = f.documents.host[2 * d], end = f.documents.host[2 * d + 1];
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t h = 0; h < f.q.size(1); ++h) {
        std::vector<double> weights;
        double sum = 0;
        for (std::int64_t j = begin; j <= t; ++j) {
          double score = 0;
          for (std::int64_t c = 0; c < Dn; ++c) score += at(f.q, t, h, c) * at(f.k_nope, j, h, c);
          for (std::int64_t c = 0; c < Dr; ++c)
            score += at(f.q, t, h, Dn + c) * f.k_rope.row<double>(j)[c];
          weights.push_back(a.visible(begin, t, j) ? std::exp(f.scale * score) : 0);
          sum += weights.back();
        }
        const double lse = f.lse.row<double>(h)[t];
        if (sum == 0)
          EXPECT_EQ(lse, -kInfinity);
        else
          EXPECT_NEAR(lse, std::log(sum), 1e-12);
        for (std::int64_t c = 0; c < f.v.size(2); ++c) {
          double want = 0;
          for (std::int64_t j = begin; j <= t; ++j)
            want += weights[static_cast<std::size_t>(j - begin)] * at(f.v, j, h, c);
          EXPECT_NEAR(at(f.out, t, h, c), sum == 0 ? 0 : want / sum, 1e-12)
              << "row " << t << ", head " << h;
        }
      }
  }
}

void expect_gradients_of_differences(Attention& a, std::int64_t elements) {
  a.run_both();
  const ops::CausalAttention& f = a.forward;
  const ops::CausalAttentionBackward& b = a.backward;
  const auto loss = [&] {
    run(a.test.ctx, f);
    double sum = 0;
    for (std::int64_t d = 0; d < f.documents.count; ++d)
      for (std::int64_t t = f.documents.host[2 * d]; t < f.documents.host[2 * d + 1]; ++t)
        for (std::int64_t h = 0; h < f.q.size(1); ++h)
          for (std::int64_t c = 0; c < f.v.size(2); ++c)
            sum += at(f.out, t, h, c) * at(b.dout, t, h, c);
    return sum;
  };
  for (const GradientError& e : gradcheck(loss,
                                          {{"q", f.q, b.dq},
                                           {"k_nope", f.k_nope, b.dk_nope},
                                           {"k_rope", f.k_rope, b.dk_rope},
                                           {"v", f.v, b.dv}},
                                          elements))
    EXPECT_LE(e.rel_l2, 1e-9) << e.name;
}

TEST(CausalAttention, IsTheSoftmaxOverEarlierRowsOfTheDocument) {
  for (const bool masked : {false, true}) {
    Attention a({.bounds = {0, 1, 1, 3, 3, 130, 130, 201}, .T = 201, .masked = masked});
    a.run_both();
    EXPECT_EQ(a.o.damage(), "");
    expect_forward_as_defined(a);
  }
}

TEST(CausalAttention, HasTheGradientsOfDifferencesAcrossTiles) {
  for (const bool masked : {false, true}) {
    Attention a({.bounds = {0, 1, 1, 3, 3, 132}, .T = 132, .masked = masked});
    expect_gradients_of_differences(a, 12);
  }
}

TEST(CausalAttention, StaysFiniteWithLargeScores) {
  Attention a(
      {.bounds = {0, 140}, .T = 140, .masked = true, .score_scale = 300, .dtype = DType::kF32});
  a.run_both();
  for (const Tensor& t : {a.forward.out, a.backward.dq, a.backward.dk_nope, a.backward.dk_rope})
    for (const double x : values_of(t)) ASSERT_TRUE(std::isfinite(x));
}

TEST(CausalAttention, LeavesRowsOutsideTheDocumentsAlone) {
  Attention a({.bounds = {2, 5, 7, 75}, .T = 80});
  a.run_both();
  EXPECT_EQ(a.o.damage(), "");
  expect_forward_as_defined(a);
  for (const Tensor& t : {a.forward.out, a.backward.dq, a.backward.dk_nope, a.backward.dv})
    for (const std::int64_t row : {0, 1, 5, 6, 75, 79}) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(t.size(2)) * 8);
      std::memcpy(bytes.data(), t.row<double>(row), bytes.size());
      EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size(), std::byte{0xff})) << "row " << row;
    }
}

TEST(CausalAttention, OfAnEmptySetIsZeroAndHasNoGradient) {
  Attention a({.bounds = {0, 70}, .T = 70, .masked = true});
  std::memset(a.forward.mask.row<std::uint32_t>(66), 0, 12);
  a.run_both();
  for (std::int64_t h = 0; h < 2; ++h) {
    EXPECT_EQ(a.forward.lse.row<double>(h)[66], -kInfinity);
    for (std::int64_t c = 0; c < 7; ++c) EXPECT_EQ(at(a.forward.out, 66, h, c), 0);
    for (std::int64_t c = 0; c < 8; ++c) EXPECT_EQ(at(a.backward.dq, 66, h, c), 0);
  }
  expect_gradients_of_differences(a, 6);
}

TEST(CausalAttention, GivesADocumentTheSameBitsWhereverItLies) {
  const Scenario alone{.bounds = {0, 90}, .T = 90, .dtype = DType::kF32};
  const Scenario packed{.bounds = {0, 67, 67, 157}, .T = 157, .dtype = DType::kF32};
  Attention a(alone), p(packed);
  for (const char* name : {"q", "k_nope", "k_rope", "v", "dout"}) {
    const Tensor from = a.o[name].view, to = p.o[name].view.rows(67, 157);
    std::memcpy(to.data, from.data,
                static_cast<std::size_t>(from.stride(0) * from.size(0)) * sizeof(float));
  }
  a.run_both();
  p.run_both();
  for (const char* name : {"out", "dq", "dk_nope", "dk_rope", "dv"})
    EXPECT_EQ(values_of(a.o[name].view), values_of(p.o[name].view.rows(67, 157))) << name;
}

TEST(CausalAttention, NamesTheOperandThatDoesNotFit) {
  Attention a({.bounds = {0, 40}, .T = 40, .masked = true});
  ops::CausalAttention op = a.forward;
  op.mask = op.mask.slice(1, 0, 1);
  try {
    run(a.test.ctx, op);
    FAIL() << "a mask of 32 keys passed for 40";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("mask is [40, 1] U32"), std::string::npos) << e.what();
  }
  op = a.forward;
  const std::int32_t overlapping[] = {0, 5, 4, 9};
  op.documents.host = overlapping;
  op.documents.count = 2;
  EXPECT_THROW(run(a.test.ctx, op), Error);
}

}  // namespace
}  // namespace glmtune::test
