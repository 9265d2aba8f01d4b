#include "base/cat.h"
#include "ops/elementwise.h"
#include "ops/split_bf16.h"
#include "support/op_cases.h"

namespace glmtune::test {
namespace {

OpCase add(std::int64_t T, std::int64_t C) {
  return {.name = cat("Add_", T, "x", C), .build = [=](Operands& o) {
            const ops::Add into_new{.out = o.output("out", {T, C}),
                                    .a = o.input("a", {T, C}),
                                    .b = o.input("b", {T, C})};
            const Tensor x = o.in_place("x", {T, C}, o.real());
            const ops::Add in_place{.out = x, .a = x, .b = into_new.b};
            return Program{.steps = {step("Add", into_new, {.flop = double(T * C)}),
                                     step("Add in place", in_place, {.flop = double(T * C)})}};
          }};
}

OpCase copy(std::int64_t T, std::int64_t C) {
  return {.name = cat("Copy_", T, "x", C), .build = [=](Operands& o) {
            const Tensor x = o.input("x", {T, C}), w = o.input("w", {T, C}, o.wide());
            return Program{
                .steps = {step("Copy to wide",
                               ops::Copy{.dst = o.output("wide", {T, C}, o.wide()), .src = x}),
                          step("Copy from wide", ops::Copy{.dst = o.output("y", {T, C}), .src = w}),
                          step("Copy to F64",
                               ops::Copy{.dst = o.output("d", {T, C}, DType::kF64), .src = x})}};
          }};
}

OpCase fill_and_scale(std::int64_t T, std::int64_t C) {
  return {
      .name = cat("FillAndScale_", T, "x", C), .build = [=](Operands& o) {
        return Program{.steps = {step("Fill", ops::Fill{.x = o.output("f", {T, C}), .value = 0.75}),
                                 step("Scale", ops::Scale{.x = o.in_place("s", {T, C}, o.real()),
                                                          .factor = -0.37})}};
      }};
}

OpCase add_sum(std::int64_t R) {
  return {.name = cat("AddSum_", R),
          .build =
              [=](Operands& o) {
                const ops::AddSum op{.out = o.adds("out", {1}, DType::kF64),
                                     .x = o.input("x", {R}, o.wide())};
                return Program{.steps = {step("AddSum", op, {.flop = double(R)})}};
              },
          .sum_length = R,
          .dtypes = {DType::kF32}};
}

OpCase split_bf16(std::int64_t R, std::int64_t C) {
  return {.name = cat("SplitBf16_", R, "x", C),
          .build =
              [=](Operands& o) {
                const ops::SplitBf16 op{.y = o.output("y", {R, 3 * C}, DType::kBF16),
                                        .x = o.input("x", {R, C}, DType::kF32)};
                return Program{.steps = {step("SplitBf16", op)}};
              },
          .dtypes = {DType::kF32}};
}

}  // namespace

std::vector<OpCase> elementwise_cases(Sizes sizes) {
  if (sizes == Sizes::kWide)
    return {add(33, 1024), copy(33, 1024), fill_and_scale(33, 1024), add_sum(5000),
            split_bf16(700, 256)};
  if (sizes == Sizes::kBench)
    return {add(4096, 512), copy(4096, 512), fill_and_scale(4096, 512), add_sum(4096)};
  return {add(5, 7),        add(1, 129),          add(0, 3),   copy(5, 7),
          copy(3, 65),      fill_and_scale(5, 7), add_sum(37), add_sum(0),
          split_bf16(5, 7), split_bf16(0, 4)};
}

}  // namespace glmtune::test
