#include <cmath>

#include "base/cat.h"
#include "ops/indexer.h"
#include "support/op_cases.h"

namespace glmtune::test {
namespace {

// Zeroes the scores that no query sees: their values are unspecified.
Step clear_unseen(const Tensor& scores, std::int64_t query_begin) {
  const auto clear = [=](Context& ctx) {
    OwnedTensor host({scores.size(0), scores.size(1)}, scores.dtype, Device::kCpu);
    copy_bytes(host, scores, ctx.stream);
    for (std::int64_t t = 0; t < scores.size(0); ++t)
      for (std::int64_t s = query_begin + t + 1; s < scores.size(1); ++s)
        if (scores.dtype == DType::kF64)
          host.view.row<double>(t)[s] = 0;
        else
          host.view.row<float>(t)[s] = 0;
    copy_bytes(scores, host, ctx.stream);
  };
  return {.name = "clear", .run = clear, .cost = {}};
}

OpCase index_scores(std::int64_t Tq, std::int64_t S, std::int64_t I, std::int64_t D,
                    std::int64_t query_begin) {
  return {
      .name = cat("IndexScores_", Tq, "at", query_begin, "of", S, "_", I, "x", D),
      .build =
          [=](Operands& o) {
            const auto no_value = [] { return 0.0; };
            // Exact in float whatever the storage type.
            const auto weight = [&] { return round_to(DType::kF32, o.random().normal()); };
            const ops::IndexScores op{.scores = o.make("scores", Role::kOutput, {Tq, S}, o.wide(),
                                                       Layout::kDense, no_value),
                                      .q = o.input("q", {Tq, I, D}),
                                      .k = o.input("k", {S, D}),
                                      .weights = o.make("weights", Role::kInput, {Tq, I}, o.wide(),
                                                        Layout::kPadded, weight),
                                      .scale = 1 / std::sqrt(double(D)),
                                      .weight_scale = 1 / std::sqrt(double(I)),
                                      .query_begin = query_begin};
            const double pairs = double(Tq) * (double(query_begin) + double(Tq + 1) / 2);
            return Program{.steps = {step("IndexScores", op, {.flop = 2 * pairs * double(I * D)}),
                                     clear_unseen(op.scores, query_begin)}};
          },
      .sum_length = D * I};
}

OpCase topk_select(std::int64_t Tq, std::int64_t S, std::int64_t k, std::int64_t query_begin,
                   bool ties) {
  return {
      .name = cat("TopkSelect_", k, "of", S, "_", Tq, "at", query_begin, ties ? "_ties" : ""),
      .build =
          [=](Operands& o) {
            const auto score = [&] {
              const double x = o.random().normal();
              return ties ? std::floor(2 * x) : round_to(DType::kF32, x);
            };
            const ops::TopkSelect op{
                .mask = o.output("mask", {Tq, (S + 31) / 32 + 1}, DType::kU32),
                .indices = o.output("indices", {Tq, std::min(k, S) + 1}, DType::kI32),
                .counts = o.output("counts", {Tq}, DType::kI32),
                .scores = o.make("scores", Role::kInput, {Tq, S}, o.wide(), Layout::kPadded, score),
                .k = k,
                .query_begin = query_begin,
                .index_base = 1000};
            return Program{.steps = {step("TopkSelect", op)}};
          },
      .dtypes = {DType::kF32}};
}

}  // namespace

std::vector<OpCase> indexer_cases(Sizes sizes) {
  if (sizes == Sizes::kBench)
    return {index_scores(1024, 1024, 8, 32, 0), topk_select(1024, 1024, 256, 0, false)};
  return {index_scores(1, 1, 1, 1, 0),         index_scores(9, 9, 3, 5, 0),
          index_scores(19, 45, 8, 7, 26),      index_scores(3, 40, 9, 32, 2),
          index_scores(13, 200, 32, 128, 187), index_scores(40, 40, 32, 128, 0),
          topk_select(1, 1, 1, 0, false),      topk_select(40, 40, 7, 0, true),
          topk_select(21, 90, 33, 60, true),   topk_select(5, 70, 64, 62, false)};
}

}  // namespace glmtune::test
