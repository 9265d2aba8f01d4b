#include "base/cat.h"
#include "ops/rope.h"
#include "ops/swiglu.h"
#include "support/op_cases.h"

namespace glmtune::test {
namespace {

using I = std::int64_t;

// The last D of each head's `head` values are rotated, as in q.
OpCase rope(I T, I H, I D, I head, ops::RopeLayout layout) {
  return {.name = cat("Rope_", T, "x", H, "x", D, "of", head,
                      layout == ops::RopeLayout::kInterleaved ? "" : "_half_split"),
          .build =
              [=](Operands& o) {
                std::vector<I> positions;
                for (I t = 0; t < T; ++t) positions.push_back(t % 3 == 2 ? 0 : 17 * t + 3);
                const Tensor p = o.integers("positions", {T}, DType::kI32, positions);
                const auto rotate = [&](const char* name, bool inverse) {
                  const Tensor x = o.in_place(name, {T, H, head}, o.real());
                  return ops::Rope{.x = x.slice(2, head - D, head),
                                   .positions = p,
                                   .theta = 1e4,
                                   .layout = layout,
                                   .inverse = inverse};
                };
                return Program{.steps = {step("Rope", rotate("x", false)),
                                         step("Rope inverse", rotate("dx", true))},
                               .seeds = {{"x", "dx"}},
                               .gradients = {{"x", "dx"}}};
              },
          // float angles of up to 17·T: their last bit.
          .tolerance_factor = 17.0 * double(T)};
}

struct SwigluOptions {
  bool row_scale = false, again = false, in_place = false;
};

OpCase swiglu(I R, I C, SwigluOptions options) {
  return {
      .name = cat("Swiglu_", R, "x", C, options.row_scale ? "_scaled" : "",
                  options.again ? "_again" : "", options.in_place ? "_in_place" : ""),
      .build =
          [=](Operands& o) {
            const Tensor gate_up = options.in_place ? o.in_place("gate_up", {R, 2 * C}, o.real(), 2)
                                                    : o.input("gate_up", {R, 2 * C}, 2);
            const Tensor dgate_up = options.in_place ? gate_up : o.output("dgate_up", {R, 2 * C});
            const ops::Swiglu forward{
                .y = o.output("y", {R, C}),
                .gate = gate_up.slice(1, 0, C),
                .up = gate_up.slice(1, C, 2 * C),
                .row_scale = options.row_scale ? o.input("row_scale", {R}, o.wide()) : Tensor{}};
            const ops::SwigluBackward backward{
                .dgate = dgate_up.slice(1, 0, C),
                .dup = dgate_up.slice(1, C, 2 * C),
                .drow_scale = options.row_scale ? o.output("drow_scale", {R}, o.wide()) : Tensor{},
                .y = options.again ? o.output("again", {R, C}) : Tensor{},
                .dy = o.input("dy", {R, C}),
                .gate = forward.gate,
                .up = forward.up,
                .row_scale = forward.row_scale};
            Program p{.steps = {step("Swiglu", forward), step("SwigluBackward", backward)},
                      .seeds = {{"y", "dy"}},
                      .gradients = {{"gate_up", options.in_place ? "gate_up" : "dgate_up"}}};
            if (options.row_scale) p.gradients.push_back({"row_scale", "drow_scale"});
            return p;
          },
      .sum_length = C};
}

}  // namespace

std::vector<OpCase> rope_cases(Sizes sizes) {
  using enum ops::RopeLayout;
  if (sizes == Sizes::kWide)
    return {rope(70, 64, 64, 256, kInterleaved), rope(300, 1, 64, 64, kInterleaved),
            rope(33, 32, 64, 128, kHalfSplit)};
  if (sizes == Sizes::kBench)
    return {rope(4096, 8, 16, 64, kInterleaved), rope(4096, 1, 16, 16, kInterleaved)};
  return {rope(5, 3, 6, 6, kInterleaved), rope(4, 2, 8, 13, kInterleaved),
          rope(5, 3, 6, 7, kHalfSplit), rope(3, 1, 2, 2, kHalfSplit),
          rope(0, 2, 4, 4, kInterleaved)};
}

std::vector<OpCase> swiglu_cases(Sizes sizes) {
  if (sizes == Sizes::kWide)
    return {swiglu(33, 2048, {.row_scale = true, .again = true}),
            swiglu(7, 4104, {.in_place = true})};
  if (sizes == Sizes::kBench)
    return {swiglu(16384, 256, {.row_scale = true, .again = true}), swiglu(4096, 256, {})};
  return {swiglu(3, 7, {}), swiglu(5, 33, {.row_scale = true}),
          swiglu(4, 6, {.row_scale = true, .again = true}),
          swiglu(2, 17, {.again = true, .in_place = true}),
          swiglu(0, 5, {.row_scale = true, .again = true})};
}

}  // namespace glmtune::test
