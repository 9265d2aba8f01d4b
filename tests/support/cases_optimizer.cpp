#include <cmath>
#include <limits>
#include <memory>

#include "base/cat.h"
#include "ops/optimizer.h"
#include "support/op_cases.h"

namespace glmtune::test {
namespace {

using I = std::int64_t;

// Lists of views must outlive the op: the step holds them.
template <class Op, class Item>
Step list_step(std::string name, Op op, std::vector<Item> items, const Cost& cost) {
  auto list = std::make_shared<std::vector<Item>>(std::move(items));
  op.items = *list;
  return {std::move(name), [op, list](Context& ctx) { run(ctx, op); }, cost};
}

OpCase gradient_norm(std::vector<I> sizes, double max_norm) {
  I total = 0;
  for (const I n : sizes) total += n;
  return {.name = cat("GradientNorm_", sizes.size(), "_of_", total, "_max_", max_norm),
          .build =
              [=](Operands& o) {
                std::vector<Tensor> items;
                for (const I n : sizes)
                  items.push_back(o.input(cat("item", items.size()), {n},
                                          items.size() % 2 == 0 ? o.wide() : o.real()));
                const Tensor sum = o.adds("sum", {1}, DType::kF64, 0);
                return Program{
                    .steps = {list_step("SumSquares", ops::SumSquares{.out = sum, .items = {}},
                                        items, {.flop = 2.0 * double(total)}),
                              step("ClipFactor",
                                   ops::ClipFactor{.factor = o.output("factor", {1}, DType::kF64),
                                                   .sum_squares = sum,
                                                   .loss = {},
                                                   .max_norm = max_norm})}};
              },
          .sum_length = total};
}

struct AdamOptions {
  bool decoupled = true, remainder = false, stochastic = false, rounded = false;
  bool marked = false;  // a step that is not applied
  bool corrected = true;
  I step = 3;
};

OpCase adam(std::vector<I> sizes, AdamOptions options) {
  I total = 0;
  for (const I n : sizes) total += n;
  return {
      .name = cat("Adam_", sizes.size(), "_of_", total, options.decoupled ? "" : "_coupled",
                  options.remainder ? "_remainder" : "", options.stochastic ? "_stochastic" : "",
                  options.rounded ? "_rounded" : "", options.marked ? "_marked" : "",
                  options.corrected ? "" : "_uncorrected", "_step_", options.step),
      .build =
          [=](Operands& o) {
            std::vector<ops::AdamItem> items;
            for (const I n : sizes) {
              const std::string s = std::to_string(items.size());
              const bool low = o.real() == DType::kBF16 && options.remainder;
              const DType moments = options.rounded ? o.real() : o.wide();
              std::vector<I> remainders;
              for (I i = 0; i < n; ++i) remainders.push_back(o.random().below(65536));
              items.push_back(
                  {.param = o.in_place("param" + s, {n}, o.real()),
                   .remainder = low ? o.integers("remainder" + s, {n}, DType::kU16, remainders,
                                                 Role::kInPlace)
                                    : Tensor{},
                   .grad = o.input("grad" + s, {n}, o.wide()),
                   .m = o.in_place("m" + s, {n}, moments, 0.1),
                   .v = o.make(
                       "v" + s, Role::kInPlace, {n}, moments, Layout::kDense,
                       [&] { return round_to(DType::kBF16, 0.1 + std::abs(o.random().normal())); }),
                   .lr_mult = items.empty() ? 1.0 : 0.5,
                   .wd_mult = items.empty() ? 1.0 : 0.0});
            }
            const Tensor scale = o.make(
                "grad_scale", Role::kInput, {1}, DType::kF64, Layout::kDense,
                [&] { return options.marked ? std::numeric_limits<double>::quiet_NaN() : 0.625; });
            return Program{.steps = {list_step("Adam",
                                               ops::Adam{.items = {},
                                                         .grad_scale = scale,
                                                         .lr = 1e-2,
                                                         .beta1 = 0.9,
                                                         .beta2 = 0.95,
                                                         .eps = 1e-8,
                                                         .weight_decay = 0.1,
                                                         .step = options.step,
                                                         .decoupled = options.decoupled,
                                                         .bias_correction = options.corrected,
                                                         .stochastic_rounding = options.stochastic,
                                                         .round_each_operation = options.rounded,
                                                         .seed = 42},
                                               items, {.flop = 15.0 * double(total)})}};
          },
      .tolerance_factor = options.stochastic || options.rounded ? 2.0 : 1.0};
}

}  // namespace

std::vector<OpCase> optimizer_cases(Sizes sizes) {
  if (sizes == Sizes::kWide)
    return {gradient_norm({200000, 17, 65536}, 1), adam({40000, 16384, 33}, {}),
            adam({40000, 8, 33}, {.remainder = true}), adam({40000, 33}, {.stochastic = true}),
            adam({40000, 33}, {.rounded = true})};
  if (sizes == Sizes::kBench)
    return {gradient_norm({1 << 22, 1 << 20}, 1), adam({1 << 22, 1 << 20}, {}),
            adam({1 << 22, 1 << 20}, {.remainder = true})};
  return {gradient_norm({7, 33, 1}, 1),
          gradient_norm({70000, 5}, 1000),
          gradient_norm({}, 1),
          adam({7, 129}, {}),
          adam({7, 600}, {.decoupled = false}),
          adam({40, 3}, {.remainder = true}),
          adam({33, 0, 5}, {.stochastic = true}),
          adam({33, 0, 5}, {.rounded = true}),
          adam({33, 5}, {.decoupled = false, .rounded = true}),
          adam({33, 5}, {.remainder = true, .marked = true}),
          adam({9}, {.step = 1}),
          adam({9}, {.corrected = false, .step = 1})};
}

}  // namespace glmtune::test
