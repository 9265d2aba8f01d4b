#include <cmath>

#include "base/cat.h"
#include "ops/attention.h"
#include "support/attention_operands.h"
#include "support/op_cases.h"

namespace glmtune::test {
namespace {

// Gradients with respect to more query elements are checked at some of them, in attention_test and
// sparse_mla_test.
constexpr std::int64_t kMostElements = 100;

using Bounds = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct Heads {
  std::int64_t H, Dn, Dr, Dv;
};

// How many of the keys that a query sees are in its mask; kAll: no mask.
enum class Selected : std::uint8_t { kAll, kHalf, kFew };

ops::Documents documents(Operands& o, const Bounds& bounds) {
  std::vector<std::int64_t> flat;
  ops::Documents d{.bounds = {}, .count = static_cast<std::int64_t>(bounds.size())};
  for (const auto& [begin, end] : bounds) {
    flat.insert(flat.end(), {begin, end});
    d.max_length = std::max(d.max_length, end - begin);
  }
  d.bounds = o.integers("bounds", {d.count, 2}, DType::kI32, flat);
  d.host = o["bounds"].host.as<std::int32_t>();
  return d;
}

// Random bits; some rows empty, some complete. Bits of keys that a query does not see are noise.
Tensor selection_mask(Operands& o, std::int64_t T, std::int64_t max_length, Selected selected) {
  const std::int64_t W = (max_length + 31) / 32 + 1;
  std::vector<std::int64_t> words;
  for (std::int64_t t = 0; t < T; ++t) {
    const std::int64_t kind = o.random().below(8);
    for (std::int64_t w = 0; w < W; ++w) {
      std::uint64_t bits = o.random().bits();
      if (selected == Selected::kFew) bits &= bits >> 7 & bits >> 13 & bits >> 23;
      words.push_back(kind == 0 ? 0 : kind == 1 ? 0xffffffff : bits & 0xffffffff);
    }
  }
  return o.integers("mask", {T, W}, DType::kU32, words);
}

// Multiply-adds of one product over all pairs of a causal document, times two.
double pair_flop(const Bounds& bounds, double per_pair) {
  double pairs = 0;
  for (const auto& [begin, end] : bounds)
    pairs += double(end - begin) * double(end - begin + 1) / 2;
  return 2 * pairs * per_pair;
}

OpCase causal(const std::string& name, const Bounds& bounds, const Heads& n, Selected selected) {
  const std::int64_t T = bounds.back().second, D = n.Dn + n.Dr;
  return {.name = cat("CausalAttention_", name, "_", n.H, "x", n.Dn, "+", n.Dr, "_", n.Dv),
          .build =
              [=](Operands& o) {
                const ops::Documents d = documents(o, bounds);
                const ops::CausalAttention op{
                    .out = o.output("out", {T, n.H, n.Dv}),
                    .lse = o.output("lse", {n.H, T}, o.wide()),
                    .q = o.input("q", {T, n.H, D}),
                    .k_nope = o.input("k_nope", {T, n.H, n.Dn}),
                    .k_rope = o.input("k_rope", {T, n.Dr}),
                    .v = o.input("v", {T, n.H, n.Dv}),
                    .mask = selected == Selected::kAll
                                ? Tensor{}
                                : selection_mask(o, T, d.max_length, selected),
                    .documents = d,
                    .scale = 1 / std::sqrt(double(D))};
                const ops::CausalAttentionBackward backward = backward_of(o, op);
                const double qk = pair_flop(bounds, double(n.H * D));
                const double pv = pair_flop(bounds, double(n.H * n.Dv));
                Program program{.steps = {step("forward", op, {.flop = qk + pv}),
                                          step("backward", backward, {.flop = 3 * qk + 2 * pv})}};
                if (T * n.H * D > kMostElements) return program;
                program.seeds = {{"out", "dout"}};
                program.gradients = {
                    {"q", "dq"}, {"k_nope", "dk_nope"}, {"k_rope", "dk_rope"}, {"v", "dv"}};
                return program;
              },
          .sum_length = T * n.H,
          .rounds_between = true,
          // dS is a difference of numbers larger than itself, each with its own rounding.
          .tolerance_factor = 4};
}

// Keys that query t has: ascending, between none and K of S.
void selections(Operands& o, std::int64_t T, std::int64_t S, std::int64_t K,
                std::vector<std::int64_t>& indices, std::vector<std::int64_t>& counts) {
  for (std::int64_t t = 0; t < T; ++t) {
    const std::int64_t wanted = t == 1 ? 0 : t == 2 ? K : o.random().below(K + 1);
    std::int64_t taken = 0;
    for (std::int64_t j = 0; j < S && taken < wanted; ++j)
      if (o.random().below(S - j) < wanted - taken) {
        indices.push_back(j);
        ++taken;
      }
    counts.push_back(taken);
    indices.resize(indices.size() + static_cast<std::size_t>(K - taken), -1);
  }
}

OpCase sparse(std::int64_t T, std::int64_t S, std::int64_t H, std::int64_t R, std::int64_t Dr,
              std::int64_t K) {
  return {.name = cat("SparseMla_", T, "of", S, "_", H, "x", R, "+", Dr, "_", K),
          .build =
              [=](Operands& o) {
                std::vector<std::int64_t> indices, counts;
                selections(o, T, S, K, indices, counts);
                double pairs = 0;
                for (const std::int64_t n : counts) pairs += double(n);
                const ops::SparseMla op{
                    .out_latent = o.output("out_latent", {T, H, R}),
                    .lse = o.output("lse", {H, T}, o.wide()),
                    .q_latent = o.input("q_latent", {T, H, R}),
                    .q_rope = o.input("q_rope", {T, H, Dr}),
                    .latent = o.input("latent", {S, R}),
                    .k_rope = o.input("k_rope", {S, Dr}),
                    .indices = o.integers("indices", {T, K}, DType::kI32, indices),
                    .counts = o.integers("counts", {T}, DType::kI32, counts),
                    .scale = 1 / std::sqrt(double(R + Dr))};
                const ops::SparseMlaBackward backward = backward_of(o, op);
                const double qk = 2 * pairs * double(H * (R + Dr)), pv = 2 * pairs * double(H * R);
                Program program{.steps = {step("forward", op, {.flop = qk + pv}),
                                          step("backward", backward, {.flop = 3 * qk + 2 * pv})}};
                if (T * H * (R + Dr) > kMostElements) return program;
                program.seeds = {{"out_latent", "dout_latent"}};
                program.gradients = {{"q_latent", "dq_latent"},
                                     {"q_rope", "dq_rope"},
                                     {"latent", "dlatent"},
                                     {"k_rope", "dk_rope"}};
                return program;
              },
          .sum_length = T * H,
          .rounds_between = true,
          .tolerance_factor = 4};  // as above
}

}  // namespace

std::vector<OpCase> attention_cases(Sizes sizes) {
  if (sizes == Sizes::kBench) {
    const Heads small{8, 48, 16, 64};
    return {
        causal("1024", {{0, 1024}}, small, Selected::kAll),
        causal("1024_masked", {{0, 1024}}, small, Selected::kHalf),
        causal("documents", {{0, 130}, {130, 420}, {420, 500}, {500, 1024}}, small, Selected::kAll),
        sparse(1024, 1024, 8, 256, 16, 256)};
  }
  return {causal("1_2_5", {{0, 1}, {1, 3}, {3, 8}}, {2, 3, 2, 5}, Selected::kAll),
          causal("5_0_3", {{0, 5}, {5, 5}, {5, 8}}, {3, 1, 4, 1}, Selected::kHalf),
          causal("73", {{0, 73}}, {2, 3, 2, 3}, Selected::kAll),
          causal("70_1", {{0, 70}, {70, 71}}, {1, 4, 2, 9}, Selected::kHalf),
          causal("131_few", {{0, 131}}, {1, 2, 1, 2}, Selected::kFew),
          causal("17", {{0, 17}}, {1, 48, 16, 64}, Selected::kHalf),
          // The released models' sizes, for which CUDA has kernels of their own.
          causal("130_65_7", {{0, 130}, {130, 195}, {195, 202}}, {2, 192, 64, 256}, Selected::kAll),
          causal("203_masked", {{0, 203}}, {1, 192, 64, 256}, Selected::kHalf),
          causal("150_few", {{0, 150}}, {2, 192, 64, 256}, Selected::kFew),
          sparse(6, 150, 64, 512, 64, 140), sparse(4, 9, 2, 5, 3, 6), sparse(3, 90, 3, 8, 1, 80),
          sparse(37, 20, 9, 3, 2, 7)};
}

}  // namespace glmtune::test
