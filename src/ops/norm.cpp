#include "ops/norm.h"

#include <algorithm>
#include <cmath>

#include "ops/expect.h"
#include "ops/norm_partials.h"
#include "ops/rows_of.h"

namespace glmtune::ops {
namespace {

using enum DType;

// Weight gradients are summed in this many runs of rows, then run by run: the same order for every
// number of threads.
constexpr std::int64_t kRuns = 64;

std::size_t partial_bytes(Device device, const Tensor& x, int gradients) {
  if (device == Device::kCuda) return norm_partial_bytes(x.size(1), gradients);
  return static_cast<std::size_t>(gradients * kRuns * x.size(1)) * size_of(wide(x.dtype));
}

void expect_rows(const char* op, const Tensor& x, const Tensor& weight) {
  expect_real(op, "x", x, {kAny, kAny});
  expect(op, "weight", weight, {x.size(1)}, x.dtype);
}

void expect_gradient(const char* op, const char* name, const Tensor& dweight, const Tensor& x) {
  if (!dweight.defined()) return;
  expect_shape(op, name, dweight, {x.size(1)});
  expect_dtype(op, name, dweight, {wide(x.dtype), x.dtype});
}

// gradient[c] += Σ_run partials[run][c], or becomes it.
template <class W>
void add_partials(const Tensor& gradient, const W* partials, std::int64_t C,
                  bool overwrite = false) {
  if (!gradient.defined()) return;
  dispatch_real(gradient.dtype, [&]<class D>(D) {
    D* d = gradient.as<D>();
    for (std::int64_t c = 0; c < C; ++c) {
      W sum = 0;
      for (std::int64_t run = 0; run < kRuns; ++run) sum += partials[run * C + c];
      d[c] = D(overwrite ? sum : W(d[c]) + sum);
    }
  });
}

}  // namespace

void RmsNorm::check() const {
  expect_rows("RmsNorm", x, weight);
  expect_same("RmsNorm", "y", y, "x", x);
  expect("RmsNorm", "rstd", rstd, {x.size(0)}, wide(x.dtype));
}

void run_cpu(const RmsNorm& op, Tensor) {
  dispatch_real(op.x.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const std::int64_t rows = op.x.size(0), C = op.x.size(1);
    const T* weight = op.weight.as<T>();
#pragma omp parallel for if (op.x.count() > kParallelElements)
    for (std::int64_t t = 0; t < rows; ++t) {
      const T* x = op.x.row<T>(t);
      T* y = op.y.row<T>(t);
      W squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t c = 0; c < C; ++c) squares += W(x[c]) * W(x[c]);
      const W rstd = W(1) / std::sqrt(squares / W(C) + W(op.eps));
      op.rstd.as<W>()[t] = rstd;
#pragma omp simd
      for (std::int64_t c = 0; c < C; ++c) y[c] = T(W(x[c]) * rstd * W(weight[c]));
    }
  });
}

void RmsNormBackward::check() const {
  expect_rows("RmsNormBackward", x, weight);
  expect_same("RmsNormBackward", "dx", dx, "x", x);
  expect_same("RmsNormBackward", "dy", dy, "x", x);
  expect("RmsNormBackward", "rstd", rstd, {x.size(0)}, wide(x.dtype));
  if (residual.defined()) expect_same("RmsNormBackward", "residual", residual, "x", x);
  expect_gradient("RmsNormBackward", "dweight", dweight, x);
}

std::size_t RmsNormBackward::workspace_bytes(Device device) const {
  return dweight.defined() ? partial_bytes(device, x, 1) : 0;
}

void run_cpu(const RmsNormBackward& op, Tensor workspace) {
  dispatch_real(op.x.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const std::int64_t rows = op.x.size(0), C = op.x.size(1);
    const T* weight = op.weight.as<T>();
#pragma omp parallel for if (op.x.count() > kParallelElements)
    for (std::int64_t run = 0; run < kRuns; ++run) {
      W* dweight = op.dweight.defined() ? workspace.as<W>() + run * C : nullptr;
      if (dweight != nullptr) std::fill_n(dweight, C, W(0));
      for (std::int64_t t = rows * run / kRuns; t < rows * (run + 1) / kRuns; ++t) {
        const T *x = op.x.row<T>(t), *dy = op.dy.row<T>(t);
        T* dx = op.dx.row<T>(t);
        const W rstd = op.rstd.as<W>()[t];
        W dot = 0;
#pragma omp simd reduction(+ : dot)
        for (std::int64_t c = 0; c < C; ++c) dot += W(dy[c]) * W(weight[c]) * W(x[c]);
        if (dweight != nullptr) {
#pragma omp simd
          for (std::int64_t c = 0; c < C; ++c) dweight[c] += W(dy[c]) * W(x[c]) * rstd;
        }
        // x̂ · mean(g x̂) = x · k
        const W k = dot / W(C) * rstd * rstd;
        const auto gradient = [&](std::int64_t c) {
          return rstd * (W(dy[c]) * W(weight[c]) - W(x[c]) * k);
        };
        if (op.residual.defined()) {
          const T* residual = op.residual.row<T>(t);
#pragma omp simd
          for (std::int64_t c = 0; c < C; ++c) dx[c] = T(W(residual[c]) + gradient(c));
        } else {
#pragma omp simd
          for (std::int64_t c = 0; c < C; ++c) dx[c] = T(gradient(c));
        }
      }
    }
    if (op.dweight.defined()) add_partials(op.dweight, workspace.as<W>(), C, op.overwrite_dweight);
  });
}

void LayerNorm::check() const {
  expect_rows("LayerNorm", x, weight);
  expect("LayerNorm", "bias", bias, {x.size(1)}, x.dtype);
  expect_same("LayerNorm", "y", y, "x", x);
  expect("LayerNorm", "mean", mean, {x.size(0)}, wide(x.dtype));
  expect("LayerNorm", "rstd", rstd, {x.size(0)}, wide(x.dtype));
}

void run_cpu(const LayerNorm& op, Tensor) {
  dispatch_real(op.x.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const std::int64_t rows = op.x.size(0), C = op.x.size(1);
    const T *weight = op.weight.as<T>(), *bias = op.bias.as<T>();
#pragma omp parallel for if (op.x.count() > kParallelElements)
    for (std::int64_t t = 0; t < rows; ++t) {
      const T* x = op.x.row<T>(t);
      T* y = op.y.row<T>(t);
      W sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < C; ++c) sum += W(x[c]);
      const W mean = sum / W(C);
      W squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t c = 0; c < C; ++c) squares += (W(x[c]) - mean) * (W(x[c]) - mean);
      const W rstd = W(1) / std::sqrt(squares / W(C) + W(op.eps));
      op.mean.as<W>()[t] = mean;
      op.rstd.as<W>()[t] = rstd;
#pragma omp simd
      for (std::int64_t c = 0; c < C; ++c)
        y[c] = T((W(x[c]) - mean) * rstd * W(weight[c]) + W(bias[c]));
    }
  });
}

void LayerNormBackward::check() const {
  expect_rows("LayerNormBackward", x, weight);
  expect_same("LayerNormBackward", "dx", dx, "x", x);
  expect_same("LayerNormBackward", "dy", dy, "x", x);
  expect("LayerNormBackward", "mean", mean, {x.size(0)}, wide(x.dtype));
  expect("LayerNormBackward", "rstd", rstd, {x.size(0)}, wide(x.dtype));
  expect_gradient("LayerNormBackward", "dweight", dweight, x);
  expect_gradient("LayerNormBackward", "dbias", dbias, x);
}

std::size_t LayerNormBackward::workspace_bytes(Device device) const {
  return partial_bytes(device, x, 2);
}

void run_cpu(const LayerNormBackward& op, Tensor workspace) {
  dispatch_real(op.x.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const std::int64_t rows = op.x.size(0), C = op.x.size(1);
    const T* weight = op.weight.as<T>();
    W* const dweights = workspace.as<W>();
    W* const dbiases = dweights + kRuns * C;
#pragma omp parallel for if (op.x.count() > kParallelElements)
    for (std::int64_t run = 0; run < kRuns; ++run) {
      W *dweight = dweights + run * C, *dbias = dbiases + run * C;
      std::fill_n(dweight, C, W(0));
      std::fill_n(dbias, C, W(0));
      for (std::int64_t t = rows * run / kRuns; t < rows * (run + 1) / kRuns; ++t) {
        const T *x = op.x.row<T>(t), *dy = op.dy.row<T>(t);
        T* dx = op.dx.row<T>(t);
        const W mean = op.mean.as<W>()[t], rstd = op.rstd.as<W>()[t];
        W sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
        for (std::int64_t c = 0; c < C; ++c) {
          const W a = W(dy[c]) * W(weight[c]), normed = (W(x[c]) - mean) * rstd;
          sum += a;
          dot += a * normed;
          dweight[c] += W(dy[c]) * normed;
          dbias[c] += W(dy[c]);
        }
        sum /= W(C);
        dot /= W(C);
#pragma omp simd
        for (std::int64_t c = 0; c < C; ++c)
          dx[c] = T(rstd * (W(dy[c]) * W(weight[c]) - sum - (W(x[c]) - mean) * rstd * dot));
      }
    }
    add_partials(op.dweight, dweights, C);
    add_partials(op.dbias, dbiases, C);
  });
}

}  // namespace glmtune::ops
