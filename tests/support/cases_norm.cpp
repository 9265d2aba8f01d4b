#include <cmath>

#include "base/cat.h"
#include "ops/norm.h"
#include "support/op_cases.h"

namespace glmtune::test {
namespace {

using I = std::int64_t;

enum class Residual : std::uint8_t { kNone, kSeparate, kInPlace };

ops::RmsNorm rms_norm_forward(Operands& o, I T, I C, double eps) {
  return {.y = o.output("y", {T, C}),
          .rstd = o.output("rstd", {T}, o.wide()),
          .x = o.input("x", {T, C}),
          .weight = o.input("weight", {C}),
          .eps = eps};
}

OpCase rms_norm(I T, I C, Residual kind, bool wide_gradient, bool first = false) {
  return {.name = cat("RmsNorm_", T, "x", C,
                      kind == Residual::kNone      ? ""
                      : kind == Residual::kInPlace ? "_in_place"
                                                   : "_residual",
                      wide_gradient ? "" : "_narrow", first ? "_first" : ""),
          .build =
              [=](Operands& o) {
                const ops::RmsNorm forward = rms_norm_forward(o, T, C, 1e-5);
                const bool in_place = kind == Residual::kInPlace;
                const Tensor dx =
                    in_place ? o.in_place("dx", {T, C}, o.real()) : o.output("dx", {T, C});
                const ops::RmsNormBackward backward{
                    .dx = dx,
                    .dweight = first ? o.output("dweight", {C}, o.wide())
                                     : o.adds("dweight", {C}, wide_gradient ? o.wide() : o.real()),
                    .dy = o.input("dy", {T, C}),
                    .x = forward.x,
                    .weight = forward.weight,
                    .rstd = forward.rstd,
                    .residual = in_place                      ? dx
                                : kind == Residual::kSeparate ? o.input("residual", {T, C})
                                                              : Tensor{},
                    .overwrite_dweight = first};
                Program p{.steps = {step("RmsNorm", forward), step("RmsNormBackward", backward)},
                          .seeds = {{"y", "dy"}},
                          .gradients = {{"x", "dx"}, {"weight", "dweight"}}};
                if (kind != Residual::kNone) p.seeds.push_back({"x", in_place ? "dx" : "residual"});
                return p;
              },
          .sum_length = std::max(T, C)};
}

OpCase frozen_rms_norm(I T, I C) {
  return {.name = cat("RmsNorm_frozen_", T, "x", C),
          .build =
              [=](Operands& o) {
                const ops::RmsNorm forward = rms_norm_forward(o, T, C, 1e-6);
                return Program{.steps = {step("RmsNorm", forward),
                                         step("RmsNormBackward",
                                              ops::RmsNormBackward{.dx = o.output("dx", {T, C}),
                                                                   .dweight = {},
                                                                   .dy = o.input("dy", {T, C}),
                                                                   .x = forward.x,
                                                                   .weight = forward.weight,
                                                                   .rstd = forward.rstd,
                                                                   .residual = {}})},
                               .seeds = {{"y", "dy"}},
                               .gradients = {{"x", "dx"}}};
              },
          .sum_length = C};
}

OpCase layer_norm(I T, I C) {
  return {.name = cat("LayerNorm_", T, "x", C),
          .build =
              [=](Operands& o) {
                const ops::LayerNorm forward{.y = o.output("y", {T, C}),
                                             .mean = o.output("mean", {T}, o.wide()),
                                             .rstd = o.output("rstd", {T}, o.wide()),
                                             .x = o.input("x", {T, C}),
                                             .weight = o.input("weight", {C}),
                                             .bias = o.input("bias", {C}),
                                             .eps = 1e-6};
                const ops::LayerNormBackward backward{.dx = o.output("dx", {T, C}),
                                                      .dweight = o.adds("dweight", {C}, o.wide()),
                                                      .dbias = o.adds("dbias", {C}, o.wide()),
                                                      .dy = o.input("dy", {T, C}),
                                                      .x = forward.x,
                                                      .weight = forward.weight,
                                                      .mean = forward.mean,
                                                      .rstd = forward.rstd};
                return Program{
                    .steps = {step("LayerNorm", forward), step("LayerNormBackward", backward)},
                    .seeds = {{"y", "dy"}},
                    .gradients = {{"x", "dx"}, {"weight", "dweight"}, {"bias", "dbias"}}};
              },
          .sum_length = std::max(T, C),
          // The mean of C numbers of either sign is smaller than they are by sqrt(C).
          .tolerance_factor = std::sqrt(double(C))};
}

}  // namespace

std::vector<OpCase> norm_cases(Sizes sizes) {
  if (sizes == Sizes::kWide)
    return {rms_norm(37, 6144, Residual::kSeparate, true),
            rms_norm(700, 512, Residual::kInPlace, true),
            rms_norm(600, 2048, Residual::kNone, true),
            rms_norm(600, 2048, Residual::kNone, true, true),
            rms_norm(9, 128, Residual::kNone, false),
            rms_norm(5, 12288, Residual::kNone, true),
            rms_norm(3, 20000, Residual::kSeparate, true),
            layer_norm(700, 128)};
  if (sizes == Sizes::kBench)
    return {rms_norm(4096, 512, Residual::kSeparate, true), layer_norm(4096, 32)};
  return {rms_norm(5, 7, Residual::kNone, true),
          rms_norm(3, 33, Residual::kSeparate, true),
          rms_norm(4, 9, Residual::kInPlace, true),
          rms_norm(70, 3, Residual::kNone, false),
          rms_norm(0, 5, Residual::kNone, true),
          rms_norm(0, 5, Residual::kNone, true, true),
          rms_norm(6, 11, Residual::kSeparate, true, true),
          rms_norm(1, 1031, Residual::kNone, true),
          frozen_rms_norm(3, 12),
          layer_norm(5, 7),
          layer_norm(67, 3),
          layer_norm(1, 130)};
}

}  // namespace glmtune::test
