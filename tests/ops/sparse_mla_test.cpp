#include <gtest/gtest.h>

#include <cmath>

#include "ops/attention.h"
#include "ops/indexer.h"
#include "support/attention_operands.h"
#include "support/gradcheck.h"
#include "support/op_case.h"

namespace glmtune::test {
namespace {

// out[r, n] = Σ_k a[r, k] b[k, n] over plain vectors.
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b,
                            std::int64_t rows, std::int64_t depth, std::int64_t cols) {
  std::vector<double> out(static_cast<std::size_t>(rows * cols), 0);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t n = 0; n < cols; ++n)
        out[static_cast<std::size_t>(r * cols + n)] +=
            a[static_cast<std::size_t>(r * depth + k)] * b[static_cast<std::size_t>(k * cols + n)];
  return out;
}

std::vector<double> transposed(const std::vector<double>& a, std::int64_t rows, std::int64_t cols) {
  std::vector<double> out(a.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      out[static_cast<std::size_t>(c * rows + r)] = a[static_cast<std::size_t>(r * cols + c)];
  return out;
}

// Columns [from, to) of the rows of head h of a [T, H, D] vector.
std::vector<double> columns(const std::vector<double>& x, std::int64_t T, std::int64_t H,
                            std::int64_t D, std::int64_t h, std::int64_t from, std::int64_t to) {
  std::vector<double> out;
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t c = from; c < to; ++c)
      out.push_back(x[static_cast<std::size_t>((t * H + h) * D + c)]);
  return out;
}

void put_columns(std::vector<double>& x, std::int64_t T, std::int64_t H, std::int64_t D,
                 std::int64_t h, const std::vector<double>& from) {
  const std::int64_t n = static_cast<std::int64_t>(from.size()) / T;
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t c = 0; c < n; ++c)
      x[static_cast<std::size_t>((t * H + h) * D + c)] = from[static_cast<std::size_t>(t * n + c)];
}

// An F64 operand with these values.
Tensor given(Operands& o, const char* name, Shape shape, const std::vector<double>& values) {
  std::size_t i = 0;
  return o.make(name, Role::kInput, shape, DType::kF64, Layout::kPadded,
                [&] { return values[i++]; });
}

void expect_close(const std::vector<double>& got, const std::vector<double>& want,
                  const char* what) {
  const Difference d = compare(got, want);
  EXPECT_TRUE(d.finite && d.rel_l2 <= 1e-12) << what << ": " << describe(d);
}

// One document, random scores, the k best keys of each query; the same weights W_k, W_v [H, ., R]
// take the latent to the dense kernel's keys and values, and the dense queries and outputs to the
// absorbed kernel's.
TEST(SparseMla, AgreesWithMaskedDenseAttentionOnTheSameWeights) {
  const std::int64_t T = 150, H = 3, Dn = 4, Dr = 2, Dv = 5, R = 6, E = Dn + Dr, k = 40, W = 5;
  Operands o({.pad = 1});
  TestContext test(Device::kCpu);
  const auto random = [&](std::int64_t n) {
    std::vector<double> x(static_cast<std::size_t>(n));
    for (double& v : x) v = o.random().normal();
    return x;
  };
  const std::vector<double> latent = random(T * R), q = random(T * H * E),
                            dout = random(T * H * Dv);
  std::vector<std::vector<double>> Wk, Wv;
  for (std::int64_t h = 0; h < H; ++h) {
    Wk.push_back(random(Dn * R));
    Wv.push_back(random(Dv * R));
  }

  const ops::TopkSelect select{.mask = o.output("mask", {T, W}, DType::kU32),
                               .indices = o.output("indices", {T, k}, DType::kI32),
                               .counts = o.output("counts", {T}, DType::kI32),
                               .scores = o.input("scores", {T, T}),
                               .k = k};
  run(test.ctx, select);

  std::vector<double> k_nope(static_cast<std::size_t>(T * H * Dn)), v(dout.size());
  std::vector<double> q_latent(static_cast<std::size_t>(T * H * R)), dout_latent(q_latent);
  std::vector<double> q_rope(static_cast<std::size_t>(T * H * Dr));
  for (std::int64_t h = 0; h < H; ++h) {
    const auto i = static_cast<std::size_t>(h);
    put_columns(k_nope, T, H, Dn, h, product(latent, transposed(Wk[i], Dn, R), T, R, Dn));
    put_columns(v, T, H, Dv, h, product(latent, transposed(Wv[i], Dv, R), T, R, Dv));
    put_columns(q_latent, T, H, R, h, product(columns(q, T, H, E, h, 0, Dn), Wk[i], T, Dn, R));
    put_columns(q_rope, T, H, Dr, h, columns(q, T, H, E, h, Dn, E));
    put_columns(dout_latent, T, H, R, h,
                product(columns(dout, T, H, Dv, h, 0, Dv), Wv[i], T, Dv, R));
  }

  const std::int32_t bounds[] = {0, static_cast<std::int32_t>(T)};
  const Tensor k_rope = o.input("k_rope", {T, Dr});
  const ops::CausalAttention dense{
      .out = o.output("out", {T, H, Dv}),
      .lse = o.output("lse", {H, T}),
      .q = given(o, "q", {T, H, E}, q),
      .k_nope = given(o, "k_nope", {T, H, Dn}, k_nope),
      .k_rope = k_rope,
      .v = given(o, "v", {T, H, Dv}, v),
      .mask = select.mask,
      .documents = {.bounds = {}, .host = bounds, .count = 1, .max_length = T},
      .scale = 0.4};
  const ops::CausalAttentionBackward dense_backward{.dq = o.output("dq", {T, H, E}),
                                                    .dk_nope = o.output("dk_nope", {T, H, Dn}),
                                                    .dk_rope = o.output("dk_rope", {T, Dr}),
                                                    .dv = o.output("dv", {T, H, Dv}),
                                                    .dout = given(o, "dout", {T, H, Dv}, dout),
                                                    .out = dense.out,
                                                    .lse = dense.lse,
                                                    .q = dense.q,
                                                    .k_nope = dense.k_nope,
                                                    .k_rope = k_rope,
                                                    .v = dense.v,
                                                    .mask = dense.mask,
                                                    .documents = dense.documents,
                                                    .scale = dense.scale};
  const ops::SparseMla sparse{.out_latent = o.output("out_latent", {T, H, R}),
                              .lse = o.output("sparse_lse", {H, T}),
                              .q_latent = given(o, "q_latent", {T, H, R}, q_latent),
                              .q_rope = given(o, "q_rope", {T, H, Dr}, q_rope),
                              .latent = given(o, "latent", {T, R}, latent),
                              .k_rope = k_rope,
                              .indices = select.indices,
                              .counts = select.counts,
                              .scale = dense.scale};
  const ops::SparseMlaBackward sparse_backward{
      .dq_latent = o.output("dq_latent", {T, H, R}),
      .dq_rope = o.output("dq_rope", {T, H, Dr}),
      .dlatent = o.output("dlatent", {T, R}),
      .dk_rope = o.output("sparse_dk_rope", {T, Dr}),
      .dout_latent = given(o, "dout_latent", {T, H, R}, dout_latent),
      .out_latent = sparse.out_latent,
      .lse = sparse.lse,
      .q_latent = sparse.q_latent,
      .q_rope = sparse.q_rope,
      .latent = sparse.latent,
      .k_rope = k_rope,
      .indices = select.indices,
      .counts = select.counts,
      .scale = dense.scale};
  run(test.ctx, dense);
  run(test.ctx, dense_backward);
  run(test.ctx, sparse);
  run(test.ctx, sparse_backward);
  EXPECT_EQ(o.damage(), "");

  const std::vector<double> out_latent = values_of(sparse.out_latent);
  const std::vector<double> dq_latent = values_of(sparse_backward.dq_latent);
  const std::vector<double> dk_nope = values_of(dense_backward.dk_nope);
  const std::vector<double> dv = values_of(dense_backward.dv);
  std::vector<double> out(dout.size()), dq(q.size()), dlatent(latent.size(), 0);
  for (std::int64_t h = 0; h < H; ++h) {
    const auto i = static_cast<std::size_t>(h);
    put_columns(out, T, H, Dv, h,
                product(columns(out_latent, T, H, R, h, 0, R), transposed(Wv[i], Dv, R), T, R, Dv));
    const std::vector<double> nope =
        product(columns(dq_latent, T, H, R, h, 0, R), transposed(Wk[i], Dn, R), T, R, Dn);
    const std::vector<double> rope =
        columns(values_of(sparse_backward.dq_rope), T, H, Dr, h, 0, Dr);
    std::vector<double> both;
    for (std::int64_t t = 0; t < T; ++t) {
      both.insert(both.end(), nope.begin() + t * Dn, nope.begin() + (t + 1) * Dn);
      both.insert(both.end(), rope.begin() + t * Dr, rope.begin() + (t + 1) * Dr);
    }
    put_columns(dq, T, H, E, h, both);
    const std::vector<double> from_keys =
        product(columns(dk_nope, T, H, Dn, h, 0, Dn), Wk[i], T, Dn, R);
    const std::vector<double> from_values =
        product(columns(dv, T, H, Dv, h, 0, Dv), Wv[i], T, Dv, R);
    for (std::size_t n = 0; n < dlatent.size(); ++n) dlatent[n] += from_keys[n] + from_values[n];
  }
  expect_close(out, values_of(dense.out), "out");
  expect_close(values_of(sparse.lse), values_of(dense.lse), "lse");
  expect_close(dq, values_of(dense_backward.dq), "dq");
  expect_close(values_of(sparse_backward.dlatent), dlatent, "dlatent");
  expect_close(values_of(sparse_backward.dk_rope), values_of(dense_backward.dk_rope), "dk_rope");
}

struct Problem {
  Operands o{{.pad = 2}};
  TestContext test{Device::kCpu};
  ops::SparseMla forward;
  ops::SparseMlaBackward backward;

  // Query t selects `counts[t]` keys of S, evenly spread.
  Problem(std::int64_t S, std::int64_t H, std::int64_t R, std::int64_t Dr,
          const std::vector<std::int64_t>& counts) {
    const auto T = static_cast<std::int64_t>(counts.size());
    const std::int64_t K = *std::max_element(counts.begin(), counts.end());
    std::vector<std::int64_t> indices;
    for (const std::int64_t n : counts)
      for (std::int64_t i = 0; i < K; ++i) indices.push_back(i < n ? (i + 1) * S / n - 1 : -1);
    forward = {.out_latent = o.output("out_latent", {T, H, R}),
               .lse = o.output("lse", {H, T}),
               .q_latent = o.input("q_latent", {T, H, R}),
               .q_rope = o.input("q_rope", {T, H, Dr}),
               .latent = o.input("latent", {S, R}),
               .k_rope = o.input("k_rope", {S, Dr}),
               .indices = o.integers("indices", {T, K}, DType::kI32, indices),
               .counts = o.integers("counts", {T}, DType::kI32, counts),
               .scale = 0.3};
    backward = test::backward_of(o, forward);
  }
};

TEST(SparseMla, HasTheGradientsOfDifferencesAcrossTilesAndBlocks) {
  std::vector<std::int64_t> counts;
  for (std::int64_t t = 0; t < 35; ++t) counts.push_back(t % 7 == 3 ? 0 : 1 + (t * 37) % 140);
  Problem p(150, 9, 5, 3, counts);
  run(p.test.ctx, p.forward);
  run(p.test.ctx, p.backward);
  EXPECT_EQ(p.o.damage(), "");
  const std::vector<double> dout = values_of(p.backward.dout_latent);
  const auto loss = [&] {
    run(p.test.ctx, p.forward);
    const std::vector<double> out = values_of(p.forward.out_latent);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
    return sum;
  };
  for (const GradientError& e : gradcheck(loss,
                                          {{"q_latent", p.forward.q_latent, p.backward.dq_latent},
                                           {"q_rope", p.forward.q_rope, p.backward.dq_rope},
                                           {"latent", p.forward.latent, p.backward.dlatent},
                                           {"k_rope", p.forward.k_rope, p.backward.dk_rope}},
                                          12))
    EXPECT_LE(e.rel_l2, 1e-9) << e.name;
}

TEST(SparseMla, OfNoKeysIsZeroAndKeysOfNoQueryGetNoGradient) {
  Problem p(10, 2, 3, 1, {0, 2});
  run(p.test.ctx, p.forward);
  run(p.test.ctx, p.backward);
  EXPECT_EQ(p.forward.lse.row<double>(1)[0], -INFINITY);
  for (std::int64_t c = 0; c < 3; ++c) {
    EXPECT_EQ(p.forward.out_latent.row<double>(0)[c], 0);
    EXPECT_EQ(p.backward.dq_latent.row<double>(0)[c], 0);
    EXPECT_EQ(p.backward.dlatent.row<double>(3)[c], 0);
    EXPECT_NE(p.backward.dlatent.row<double>(4)[c], 0);
  }
}

TEST(SparseMla, RefusesIndicesThatAreNoAscendingRows) {
  Problem p(10, 1, 2, 1, {2});
  p.forward.indices.as<std::int32_t>()[1] = 10;
  EXPECT_THROW(run(p.test.ctx, p.forward), Error);
  p.forward.indices.as<std::int32_t>()[1] = 4;
  EXPECT_THROW(run(p.test.ctx, p.forward), Error);
}

}  // namespace
}  // namespace glmtune::test
