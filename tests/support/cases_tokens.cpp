#include "base/cat.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/rows.h"
#include "support/op_cases.h"

namespace glmtune::test {
namespace {

using I = std::int64_t;

std::vector<I> random_numbers(Operands& o, I count, I below) {
  std::vector<I> v;
  for (I i = 0; i < count; ++i) v.push_back(o.random().below(below));
  return v;
}

std::vector<I> permutation(Operands& o, I count) {
  std::vector<I> v;
  for (I i = 0; i < count; ++i) v.push_back(i);
  for (I i = count - 1; i > 0; --i)
    std::swap(v[static_cast<std::size_t>(i)], v[static_cast<std::size_t>(o.random().below(i + 1))]);
  return v;
}

OpCase embedding(I T, I C, I V) {
  return {.name = cat("Embedding_", T, "x", C, "x", V),
          .build =
              [=](Operands& o) {
                const ops::Embedding forward{
                    .y = o.output("y", {T, C}),
                    .ids = o.integers("ids", {T}, DType::kI32, random_numbers(o, T, V)),
                    .table = o.input("table", {V, C})};
                const ops::EmbeddingBackward backward{.dtable = o.adds("dtable", {V, C}, o.wide()),
                                                      .dy = o.input("dy", {T, C}),
                                                      .ids = forward.ids};
                return Program{
                    .steps = {step("Embedding", forward), step("EmbeddingBackward", backward)},
                    .seeds = {{"y", "dy"}},
                    .gradients = {{"table", "dtable"}}};
              },
          .sum_length = T};
}

OpCase cross_entropy(I R, I V, bool in_place) {
  return {.name = cat("CrossEntropy_", R, "x", V, in_place ? "_in_place" : ""),
          .build =
              [=](Operands& o) {
                constexpr double kScale = 0.25;
                const Tensor logits = in_place ? o.in_place("logits", {R, V}, o.real(), 3)
                                               : o.input("logits", {R, V}, 3);
                o.make("dloss", Role::kInput, {R}, o.wide(), Layout::kDense, [] { return kScale; });
                const ops::CrossEntropy op{
                    .losses = o.output("losses", {R}, o.wide()),
                    .dlogits = in_place ? logits : o.output("dlogits", {R, V}),
                    .logits = logits,
                    .labels = o.integers("labels", {R}, DType::kI32, random_numbers(o, R, V)),
                    .grad_scale = kScale};
                return Program{.steps = {step("CrossEntropy", op)},
                               .seeds = {{"losses", "dloss"}},
                               .gradients = {{"logits", in_place ? "logits" : "dlogits"}}};
              },
          .sum_length = V,
          // Exponents of up to some 20 in float: their last bit is that much larger.
          .tolerance_factor = 4};
}

OpCase loss_only(I R, I V) {
  return {.name = cat("CrossEntropy_loss_", R, "x", V),
          .build =
              [=](Operands& o) {
                return Program{.steps = {step("CrossEntropy",
                                              ops::CrossEntropy{
                                                  .losses = o.output("losses", {R}, o.wide()),
                                                  .dlogits = {},
                                                  .logits = o.input("logits", {R, V}, 3),
                                                  .labels = o.integers("labels", {R}, DType::kI32,
                                                                       random_numbers(o, R, V)),
                                                  .grad_scale = 1})}};
              },
          .sum_length = V,
          .tolerance_factor = 4};
}

// Tokens to their experts' rows and back: each is the other's gradient.
OpCase permute(I T, I K, I C, bool base_in_place) {
  return {.name = cat("Rows_permute_", T, "x", K, "x", C, base_in_place ? "_in_place" : ""),
          .build =
              [=](Operands& o) {
                const Tensor row_of_slot =
                    o.integers("row_of_slot", {T, K}, DType::kI32, permutation(o, T * K));
                const ops::SpreadRows spread{.y = o.output("rows", {T * K, C}),
                                             .x = o.input("x", {T, C}),
                                             .row_of_slot = row_of_slot};
                const Tensor out =
                    base_in_place ? o.in_place("out", {T, C}, o.real()) : o.output("out", {T, C});
                const ops::CombineRows combine{
                    .y = out,
                    .x = o.input("expert_out", {T * K, C}),
                    .row_of_slot = row_of_slot,
                    .base = base_in_place ? out : o.input("base", {T, C})};
                const ops::CombineRows dspread{.y = o.output("dx", {T, C}),
                                               .x = o.input("drows", {T * K, C}),
                                               .row_of_slot = row_of_slot,
                                               .base = {}};
                const ops::SpreadRows dcombine{.y = o.output("dexpert_out", {T * K, C}),
                                               .x = o.input("dout", {T, C}),
                                               .row_of_slot = row_of_slot};
                return Program{.steps = {step("SpreadRows", spread), step("CombineRows", combine),
                                         step("CombineRows gradient", dspread),
                                         step("SpreadRows gradient", dcombine)},
                               .seeds = {{"rows", "drows"}, {"out", "dout"}},
                               .gradients = {{"x", "dx"}, {"expert_out", "dexpert_out"}},
                               .forward_steps = 2};
              },
          .sum_length = K};
}

OpCase scatter(I R, I S, I C) {
  return {
      .name = cat("Rows_scatter_", R, "of", S, "x", C), .build = [=](Operands& o) {
        std::vector<I> index = permutation(o, S);
        index.resize(static_cast<std::size_t>(R));
        const Tensor i = o.integers("index", {R}, DType::kI32, index);
        return Program{
            .steps = {step("ScatterRows", ops::ScatterRows{.y = o.in_place("y", {S, C}, o.real()),
                                                           .x = o.input("x", {R, C}),
                                                           .index = i}),
                      step("GatherRows gradient", ops::GatherRows{.y = o.output("dx", {R, C}),
                                                                  .x = o.input("dy", {S, C}),
                                                                  .index = i})},
            .seeds = {{"y", "dy"}},
            .gradients = {{"x", "dx"}}};
      }};
}

}  // namespace

std::vector<OpCase> embedding_cases(Sizes sizes) {
  if (sizes == Sizes::kWide) return {embedding(5000, 264, 700), embedding(3000, 64, 70000)};
  if (sizes == Sizes::kBench) return {embedding(4096, 512, 8192)};
  return {embedding(9, 7, 5), embedding(4, 33, 11), embedding(7, 300, 3), embedding(0, 3, 4)};
}

std::vector<OpCase> cross_entropy_cases(Sizes sizes) {
  if (sizes == Sizes::kWide)
    return {cross_entropy(5, 20000, true), cross_entropy(3, 33333, false), loss_only(4, 8200)};
  if (sizes == Sizes::kBench) return {cross_entropy(1024, 8192, true), loss_only(1024, 8192)};
  return {cross_entropy(3, 7, false),   cross_entropy(5, 33, true), cross_entropy(1, 1, false),
          cross_entropy(2, 513, false), cross_entropy(0, 7, false), loss_only(3, 19)};
}

std::vector<OpCase> rows_cases(Sizes sizes) {
  if (sizes == Sizes::kWide)
    return {permute(70, 8, 6144, true), permute(30, 3, 520, false), scatter(20, 40, 1032)};
  if (sizes == Sizes::kBench) return {permute(4096, 4, 512, true), scatter(2048, 4096, 512)};
  return {permute(5, 3, 7, false),  permute(4, 1, 9, true),  permute(2, 2, 260, false),
          permute(3, 8, 20, false), permute(0, 2, 3, false), scatter(3, 5, 7),
          scatter(0, 2, 3)};
}

}  // namespace glmtune::test
