#include "ops/swiglu.h"

#include "ops/expect.h"
#include "ops/fast_math.h"
#include "ops/rows_of.h"

namespace glmtune::ops {
namespace {

void expect_operands(const char* op, const Tensor& gate, const Tensor& up,
                     const Tensor& row_scale) {
  expect_real(op, "gate", gate, {kAny, kAny});
  expect_same(op, "up", up, "gate", gate);
  if (row_scale.defined()) expect(op, "row_scale", row_scale, {gate.size(0)}, wide(gate.dtype));
}

}  // namespace

void Swiglu::check() const {
  expect_operands("Swiglu", gate, up, row_scale);
  expect_same("Swiglu", "y", y, "gate", gate);
}

void run_cpu(const Swiglu& op, Tensor) {
  dispatch_real(op.gate.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const std::int64_t rows = op.gate.size(0), I = op.gate.size(1);
#pragma omp parallel for if (op.gate.count() > kParallelElements)
    for (std::int64_t r = 0; r < rows; ++r) {
      const T *gate = op.gate.row<T>(r), *up = op.up.row<T>(r);
      T* y = op.y.row<T>(r);
      const W scale = op.row_scale.defined() ? op.row_scale.as<W>()[r] : W(1);
#pragma omp simd
      for (std::int64_t i = 0; i < I; ++i)
        y[i] = T(W(gate[i]) * sigmoid(W(gate[i])) * W(up[i]) * scale);
    }
  });
}

void SwigluBackward::check() const {
  expect_operands("SwigluBackward", gate, up, row_scale);
  expect_same("SwigluBackward", "dy", dy, "gate", gate);
  expect_same("SwigluBackward", "dgate", dgate, "gate", gate);
  expect_same("SwigluBackward", "dup", dup, "gate", gate);
  if (drow_scale.defined())
    expect("SwigluBackward", "drow_scale", drow_scale, {gate.size(0)}, wide(gate.dtype));
  if (y.defined()) expect_same("SwigluBackward", "y", y, "gate", gate);
}

void run_cpu(const SwigluBackward& op, Tensor) {
  dispatch_real(op.gate.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const std::int64_t rows = op.gate.size(0), I = op.gate.size(1);
#pragma omp parallel for if (op.gate.count() > kParallelElements)
    for (std::int64_t r = 0; r < rows; ++r) {
      const T *gate = op.gate.row<T>(r), *up = op.up.row<T>(r), *dy = op.dy.row<T>(r);
      T *dgate = op.dgate.row<T>(r), *dup = op.dup.row<T>(r);
      const W scale = op.row_scale.defined() ? op.row_scale.as<W>()[r] : W(1);
      W dscale = 0;
      // dgate and dup may be gate and up: all is read before anything of element i is written.
      const auto element = [&](std::int64_t i, T* y) {
        const W g = W(gate[i]), u = W(up[i]), d = W(dy[i]), s = sigmoid(g), silu = g * s;
        dgate[i] = T(d * scale * u * s * (W(1) + g * (W(1) - s)));
        dup[i] = T(d * scale * silu);
        if (y != nullptr) y[i] = T(silu * u * scale);
        return d * silu * u;
      };
      if (op.y.defined()) {
        T* y = op.y.row<T>(r);
#pragma omp simd reduction(+ : dscale)
        for (std::int64_t i = 0; i < I; ++i) dscale += element(i, y);
      } else {
#pragma omp simd reduction(+ : dscale)
        for (std::int64_t i = 0; i < I; ++i) dscale += element(i, nullptr);
      }
      if (op.drow_scale.defined()) op.drow_scale.as<W>()[r] = dscale;
    }
  });
}

}  // namespace glmtune::ops
