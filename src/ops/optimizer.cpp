#include "ops/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/cat.h"
#include "ops/expect.h"
#include "ops/philox.h"

namespace glmtune::ops {
namespace {

using enum DType;

// Lists of tensors are worked on in runs of this many elements, whatever the number of threads.
constexpr std::int64_t kRun = 1 << 15;
// Within a run, blocks are converted to wide numbers in first-level cache.
constexpr std::int64_t kBlock = 512;

struct Run {
  std::size_t item;
  std::int64_t begin, end;
};

template <class Items, class TensorOf>
std::vector<Run> runs_of(const Items& items, TensorOf tensor_of) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::int64_t n = tensor_of(items[i]).count();
    for (std::int64_t begin = 0; begin < n; begin += kRun)
      runs.push_back({i, begin, std::min(n, begin + kRun)});
  }
  return runs;
}

void expect_dense(const char* op, std::size_t item, const char* name, const Tensor& t) {
  if (!t.contiguous())
    fail(cat(op, ": ", name, " of item ", item, ", ", t.shape_string(),
             ", is strided, expected contiguous"));
}

// Elements [begin, begin + n) as wide numbers: where they are, or converted into `space`.
template <class W>
W* read_block(const Tensor& t, std::int64_t begin, std::int64_t n, W* space) {
  if (t.dtype == DTypeOf<W>::value) return t.as<W>() + begin;
  dispatch_real(t.dtype, [&]<class T>(T) {
    const T* p = t.as<T>() + begin;
    for (std::int64_t i = 0; i < n; ++i) space[i] = W(p[i]);
  });
  return space;
}

template <class W>
void write_block(const Tensor& t, std::int64_t begin, std::int64_t n, const W* from) {
  if (t.dtype == DTypeOf<W>::value) return;  // was changed in place
  dispatch_real(t.dtype, [&]<class T>(T) {
    T* p = t.as<T>() + begin;
    for (std::int64_t i = 0; i < n; ++i) p[i] = T(from[i]);
  });
}

// The fp32 master of a BF16 parameter: bits = (parameter << 16) + remainder, −32768 ≤ remainder.
void read_master(const AdamItem& item, std::int64_t begin, std::int64_t n, float* master) {
  const std::uint16_t* high = item.param.as<std::uint16_t>() + begin;
  const std::uint16_t* low = item.remainder.as<std::uint16_t>() + begin;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto remainder = static_cast<std::int16_t>(low[i]);
    master[i] = std::bit_cast<float>((static_cast<std::uint32_t>(high[i]) << 16) +
                                     static_cast<std::uint32_t>(std::int32_t{remainder}));
  }
}

void write_master(const AdamItem& item, std::int64_t begin, std::int64_t n, const float* master) {
  std::uint16_t* high = item.param.as<std::uint16_t>() + begin;
  std::uint16_t* low = item.remainder.as<std::uint16_t>() + begin;
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(master[i]);
    // The carry of a NaN's low bits must not make a number of it.
    if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fc00000u;
    high[i] = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
    low[i] = static_cast<std::uint16_t>(bits);
  }
}

void write_stochastic(const Adam& op, const AdamItem& item, std::int64_t begin, std::int64_t n,
                      std::uint64_t first_element, const float* from) {
  std::uint16_t* p = item.param.as<std::uint16_t>() + begin;
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(from[i]);
    if ((bits & 0x7f800000u) == 0x7f800000u) {  // infinite or NaN
      p[i] = BFloat16(from[i]).bits;
      continue;
    }
    bits += rounding_bits(op.seed, static_cast<std::uint64_t>(op.step),
                          first_element + static_cast<std::uint64_t>(begin + i));
    p[i] = static_cast<std::uint16_t>(bits >> 16);
  }
}

bool rounds_each_operation(const Adam& op, const AdamItem& item) {
  return op.round_each_operation && !item.remainder.defined() && item.param.dtype == kBF16 &&
         item.m.dtype == kBF16 && item.v.dtype == kBF16;
}

// See Adam::round_each_operation.
void update_rounded(const Adam& op, const AdamItem& item, const Run& run) {
  const double lr = op.lr * item.lr_mult, decay = op.weight_decay * item.wd_mult;
  const auto correction = [&](double beta) {
    return op.bias_correction ? 1 - std::pow(beta, static_cast<double>(op.step)) : 1.0;
  };
  const auto rounded = [](float x) { return static_cast<float>(BFloat16(x)); };
  const auto keep = static_cast<float>(1 - lr * decay), coupled = static_cast<float>(decay);
  const auto step_size = static_cast<float>(lr / correction(op.beta1));
  const auto root2 = static_cast<float>(std::sqrt(correction(op.beta2)));
  const auto eps = static_cast<float>(op.eps), take1 = static_cast<float>(1 - op.beta1);
  const auto keep2 = static_cast<float>(op.beta2), take2 = static_cast<float>(1 - op.beta2);
  const auto scale = static_cast<float>(op.grad_scale.defined() ? *op.grad_scale.as<double>() : 1);
  BFloat16 *params = item.param.as<BFloat16>(), *ms = item.m.as<BFloat16>(),
           *vs = item.v.as<BFloat16>();
  float space[kBlock];
  for (std::int64_t begin = run.begin; begin < run.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, run.end - begin);
    const float* grad = read_block(item.grad, begin, n, space);
    for (std::int64_t i = 0; i < n; ++i) {
      float p{params[begin + i]}, m{ms[begin + i]}, v{vs[begin + i]};
      float g = rounded(rounded(grad[i]) * scale);
      if (op.decoupled)
        p = rounded(p * keep);
      else
        g = rounded(g + coupled * p);
      // torch's lerp works from the nearer end.
      m = rounded(take1 < 0.5F ? m + take1 * (g - m) : g - (g - m) * (1 - take1));
      v = rounded(rounded(v * keep2) + take2 * g * g);
      const float denominator = rounded(rounded(rounded(std::sqrt(v)) / root2) + eps);
      params[begin + i] = BFloat16(p - step_size * (m / denominator));
      ms[begin + i] = BFloat16(m);
      vs[begin + i] = BFloat16(v);
    }
  }
}

template <class W>
void update_run(const Adam& op, const AdamItem& item, const Run& run, std::uint64_t first_element) {
  const double lr = op.lr * item.lr_mult, decay = op.weight_decay * item.wd_mult;
  const auto correction = [&](double beta) {
    return op.bias_correction ? 1 - std::pow(beta, static_cast<double>(op.step)) : 1.0;
  };
  const double correction1 = correction(op.beta1), correction2 = correction(op.beta2);
  const W keep = W(op.decoupled ? 1 - lr * decay : 1), coupled = W(op.decoupled ? 0 : decay);
  const W step_size = W(lr / correction1), root2 = W(std::sqrt(correction2)), eps = W(op.eps);
  const W take1 = W(1 - op.beta1), keep2 = W(op.beta2), take2 = W(1 - op.beta2);
  const W scale = W(op.grad_scale.defined() ? *op.grad_scale.as<double>() : 1.0);

  W p_space[kBlock], g_space[kBlock], m_space[kBlock], v_space[kBlock];
  for (std::int64_t begin = run.begin; begin < run.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, run.end - begin);
    const W* grad = read_block(item.grad, begin, n, g_space);
    W* m = read_block(item.m, begin, n, m_space);
    W* v = read_block(item.v, begin, n, v_space);
    W* p = p_space;
    if constexpr (std::is_same_v<W, float>) {
      if (item.remainder.defined()) read_master(item, begin, n, p_space);
    }
    if (!item.remainder.defined()) p = read_block(item.param, begin, n, p_space);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const W g = grad[i] * scale + coupled * p[i];
      m[i] += take1 * (g - m[i]);
      v[i] = keep2 * v[i] + take2 * g * g;
      p[i] = p[i] * keep - step_size * (m[i] / (std::sqrt(v[i]) / root2 + eps));
    }
    write_block(item.m, begin, n, m);
    write_block(item.v, begin, n, v);
    if constexpr (std::is_same_v<W, float>) {
      if (item.remainder.defined()) {
        write_master(item, begin, n, p);
        continue;
      }
      if (item.param.dtype == kBF16 && op.stochastic_rounding) {
        write_stochastic(op, item, begin, n, first_element, p);
        continue;
      }
    }
    write_block(item.param, begin, n, p);
  }
}

}  // namespace

void SumSquares::check() const {
  expect("SumSquares", "out", out, {1}, kF64);
  for (std::size_t i = 0; i < items.size(); ++i) {
    expect_dtype("SumSquares", cat("item ", i).c_str(), items[i], {kF64, kF32, kBF16});
    expect_dense("SumSquares", i, "the tensor", items[i]);
  }
}

std::size_t SumSquares::workspace_bytes(Device) const {
  return runs_of(items, [](const Tensor& t) { return t; }).size() * sizeof(double);
}

void run_cpu(const SumSquares& op, Tensor workspace) {
  const std::vector<Run> runs = runs_of(op.items, [](const Tensor& t) { return t; });
  double* sums = workspace.as<double>();
#pragma omp parallel for if (runs.size() > 3)
  for (std::size_t r = 0; r < runs.size(); ++r)
    dispatch_real(op.items[runs[r].item].dtype, [&]<class T>(T) {
      const T* x = op.items[runs[r].item].as<T>();
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = runs[r].begin; i < runs[r].end; ++i) {
        const double value = static_cast<double>(Wide<T>(x[i]));
        sum += value * value;
      }
      sums[r] = sum;
    });
  double total = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) total += sums[r];
  *op.out.as<double>() += total;
}

void ClipFactor::check() const {
  expect("ClipFactor", "factor", factor, {1}, kF64);
  expect("ClipFactor", "sum_squares", sum_squares, {1}, kF64);
  if (loss.defined()) expect("ClipFactor", "loss", loss, {1}, kF64);
}

void run_cpu(const ClipFactor& op, Tensor) {
  double factor = 1;
  if (op.max_norm > 0 && op.max_norm < std::numeric_limits<double>::infinity()) {
    const double f = op.max_norm / (std::sqrt(*op.sum_squares.as<double>()) + 1e-6);
    factor = f > 1 ? 1 : f;
  }
  const bool finite = std::isfinite(*op.sum_squares.as<double>()) &&
                      (!op.loss.defined() || std::isfinite(*op.loss.as<double>()));
  if (!finite) factor = std::numeric_limits<double>::quiet_NaN();
  *op.factor.as<double>() = factor;
}

void Adam::check() const {
  if (grad_scale.defined()) expect("Adam", "grad_scale", grad_scale, {1}, kF64);
  if (step < 1) fail(cat("Adam: step is ", step, ", expected 1 or more"));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const AdamItem& item = items[i];
    expect_dtype("Adam", cat("param of item ", i).c_str(), item.param, {kF64, kF32, kBF16});
    expect_dense("Adam", i, "param", item.param);
    const std::pair<const char*, const Tensor*> others[] = {
        {"grad", &item.grad}, {"m", &item.m}, {"v", &item.v}};
    for (const auto& [name, t] : others) {
      expect_dtype("Adam", cat(name, " of item ", i).c_str(), *t, {kF64, kF32, kBF16});
      if (!t->same_shape(item.param))
        fail(cat("Adam: ", name, " of item ", i, " is ", t->shape_string(),
                 ", expected the shape of param, ", item.param.shape_string()));
      expect_dense("Adam", i, name, *t);
    }
    if (!item.remainder.defined()) continue;
    expect_dtype("Adam", cat("param with a remainder, item ", i).c_str(), item.param, {kBF16});
    expect_dtype("Adam", cat("remainder of item ", i).c_str(), item.remainder, {kU16});
    if (!item.remainder.same_shape(item.param))
      fail(cat("Adam: remainder of item ", i, " is ", item.remainder.shape_string(),
               ", expected the shape of param, ", item.param.shape_string()));
    expect_dense("Adam", i, "remainder", item.remainder);
  }
}

void run_cpu(const Adam& op, Tensor) {
  if (op.grad_scale.defined() && std::isnan(*op.grad_scale.as<double>())) return;
  const std::vector<Run> runs = runs_of(op.items, [](const AdamItem& i) { return i.param; });
  std::vector<std::uint64_t> first(op.items.size(), 0);  // element number of each item's first
  for (std::size_t i = 1; i < first.size(); ++i)
    first[i] = first[i - 1] + static_cast<std::uint64_t>(op.items[i - 1].param.count());
#pragma omp parallel for if (runs.size() > 3)
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const AdamItem& item = op.items[runs[r].item];
    if (rounds_each_operation(op, item))
      update_rounded(op, item, runs[r]);
    else if (item.param.dtype == kF64)
      update_run<double>(op, item, runs[r], first[runs[r].item]);
    else
      update_run<float>(op, item, runs[r], first[runs[r].item]);
  }
}

}  // namespace glmtune::ops
