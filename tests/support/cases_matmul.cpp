#include "base/cat.h"
#include "ops/matmul.h"
#include "support/op_cases.h"

namespace glmtune::test {
namespace {

using I = std::int64_t;

// A Linear's three products: y = x wᵀ, dx = dy w, dw += dyᵀ x.
OpCase linear(I T, I N, I K) {
  return {
      .name = cat("Matmul_linear_", T, "x", N, "x", K),
      .build =
          [=](Operands& o) {
            const Tensor x = o.input("x", {T, K}), w = o.input("w", {N, K}),
                         dy = o.input("dy", {T, N});
            const Cost cost{.flop = 2.0 * double(T * N * K)};
            return Program{
                .steps = {step("Matmul y",
                               ops::Matmul{
                                   .out = o.output("y", {T, N}), .a = x, .b = w, .trans_b = true},
                               cost),
                          step("Matmul dx",
                               ops::Matmul{.out = o.output("dx", {T, K}), .a = dy, .b = w}, cost),
                          step("Matmul dw",
                               ops::Matmul{.out = o.adds("dw", {N, K}, o.wide()),
                                           .a = dy,
                                           .b = x,
                                           .trans_a = true,
                                           .beta = 1},
                               cost)},
                .seeds = {{"y", "dy"}},
                .gradients = {{"x", "dx"}, {"w", "dw"}}};
          },
      .sum_length = std::max({T, N, K})};
}

// All four transpositions, with alpha, beta and a third operand.
OpCase general(I M, I N, I K) {
  return {
      .name = cat("Matmul_general_", M, "x", N, "x", K),
      .build =
          [=](Operands& o) {
            Program p;
            for (const bool ta : {false, true})
              for (const bool tb : {false, true}) {
                const std::string s = cat(ta ? "t" : "n", tb ? "t" : "n");
                const Tensor a = o.input("a" + s, {ta ? K : M, ta ? M : K}),
                             b = o.input("b" + s, {tb ? N : K, tb ? K : N});
                p.steps.push_back(
                    step("Matmul " + s, ops::Matmul{.out = o.output("out" + s, {M, N}),
                                                    .a = a,
                                                    .b = b,
                                                    .c = o.input("c" + s, {M, N}),
                                                    .trans_a = ta,
                                                    .trans_b = tb,
                                                    .alpha = 0.7,
                                                    .beta = -1.3}));
                p.steps.push_back(step("Matmul in place " + s,
                                       ops::Matmul{.out = o.in_place("io" + s, {M, N}, o.real()),
                                                   .a = a,
                                                   .b = b,
                                                   .trans_a = ta,
                                                   .trans_b = tb,
                                                   .beta = 0.5}));
              }
            return p;
          },
      .sum_length = K};
}

OpCase batched(I B, I M, I N, I K) {
  return {.name = cat("Matmul_batched_", B, "x", M, "x", N, "x", K),
          .build =
              [=](Operands& o) {
                Program p;
                const Cost cost{.flop = 2.0 * double(B * M * N * K)};
                for (const bool ta : {false, true})
                  for (const bool tb : {false, true}) {
                    const std::string s = cat(ta ? "t" : "n", tb ? "t" : "n");
                    p.steps.push_back(
                        step("Matmul " + s,
                             ops::Matmul{.out = o.output("out" + s, {B, M, N}),
                                         .a = o.input("a" + s, {B, ta ? K : M, ta ? M : K}),
                                         .b = o.input("b" + s, {B, tb ? N : K, tb ? K : N}),
                                         .trans_a = ta,
                                         .trans_b = tb},
                             cost));
                  }
                return p;
              },
          .sum_length = K};
}

// Rows of expert e: about the mean, but the first expert gets none and one a double share.
std::vector<I> uneven_offsets(I E, I rows) {
  std::vector<I> offsets(static_cast<std::size_t>(E + 1), 0);
  for (I e = 1; e <= E; ++e)
    offsets[static_cast<std::size_t>(e)] = e == E ? rows : (E > 1 ? rows * (e - 1) / E : 0);
  return offsets;
}

// `spare` rows lie behind the last expert's and belong to none: left alone.
OpCase grouped(I E, I R, I N, I K, I spare) {
  return {
      .name = cat("GroupedMatmul_", E, "x", R, "x", N, "x", K),
      .build =
          [=](Operands& o) {
            const Tensor x = o.input("x", {R + spare, K}), w = o.input("w", {E, N, K}),
                         wt = o.input("wt", {E, K, N}), dy = o.input("dy", {R + spare, N}),
                         offsets =
                             o.integers("offsets", {E + 1}, DType::kI32, uneven_offsets(E, R));
            const Cost cost{.flop = 2.0 * double(R * N * K)};
            return Program{
                .steps = {step("GroupedMatmul y",
                               ops::GroupedMatmul{.out = o.in_place("y", {R + spare, N}, o.real()),
                                                  .a = x,
                                                  .b = w,
                                                  .offsets = offsets,
                                                  .trans_b = true},
                               cost),
                          step("GroupedMatmul z",
                               ops::GroupedMatmul{.out = o.in_place("z", {R + spare, N}, o.real()),
                                                  .a = x,
                                                  .b = wt,
                                                  .offsets = offsets},
                               cost),
                          step("GroupedMatmul dx",
                               ops::GroupedMatmul{
                                   .out = o.in_place("dx", {R + spare, K}, o.real(), 0),
                                   .a = dy,
                                   .b = w,
                                   .offsets = offsets},
                               cost),
                          step("GroupedMatmulWgrad dw",
                               ops::GroupedMatmulWgrad{.dw = o.adds("dw", {E, N, K}, o.wide()),
                                                       .dy = dy,
                                                       .x = x,
                                                       .offsets = offsets},
                               cost),
                          step("GroupedMatmulWgrad narrow",
                               ops::GroupedMatmulWgrad{.dw = o.adds("narrow", {E, N, K}, o.real()),
                                                       .dy = dy,
                                                       .x = x,
                                                       .offsets = offsets}),
                          step("GroupedMatmulWgrad first",
                               ops::GroupedMatmulWgrad{.dw = o.output("first", {E, N, K}, o.wide()),
                                                       .dy = dy,
                                                       .x = x,
                                                       .offsets = offsets,
                                                       .overwrite = true},
                               cost),
                          step("GroupedMatmulWgrad narrow first",
                               ops::GroupedMatmulWgrad{.dw = o.output("narrow_first", {E, N, K}),
                                                       .dy = dy,
                                                       .x = x,
                                                       .offsets = offsets,
                                                       .overwrite = true})},
                .seeds = {{"y", "dy"}},
                .gradients = {{"x", "dx"}, {"w", "dw"}, {"w", "first"}}};
          },
      .sum_length = std::max({R, N, K})};
}

}  // namespace

std::vector<OpCase> matmul_cases(Sizes sizes) {
  if (sizes == Sizes::kWide)
    return {
        linear(300, 512, 256),          general(130, 264, 192),        batched(6, 130, 72, 96),
        grouped(5, 700, 264, 200, 9),   grouped(3, 1000, 520, 328, 0), grouped(9, 300, 128, 64, 3),
        grouped(2, 5000, 384, 576, 40), grouped(70, 2000, 72, 136, 0), grouped(300, 900, 72, 80, 5),
        grouped(2, 2600, 520, 72, 3),   grouped(1, 4208, 72, 520, 0)};
  if (sizes == Sizes::kBench)
    return {linear(4096, 512, 512),          linear(4096, 192, 512),
            linear(1024, 8192, 512),         batched(8, 1024, 1024, 64),
            batched(64, 128, 128, 64),       grouped(16, 16384, 512, 512, 0),
            grouped(16, 16384, 512, 256, 0), grouped(64, 4096, 64, 64, 0)};
  return {linear(5, 7, 3),         linear(1, 1, 1),        linear(13, 33, 17),
          linear(0, 4, 3),         general(7, 19, 5),      general(6, 16, 8),
          general(80, 35, 530),    general(150, 40, 20),   general(7, 1100, 5),
          general(4, 3, 0),        batched(3, 5, 7, 9),    batched(2, 40, 33, 16),
          grouped(3, 11, 5, 7, 0), grouped(1, 6, 3, 4, 2), grouped(4, 0, 3, 5, 1),
          grouped(5, 23, 17, 9, 3)};
}

}  // namespace glmtune::test
