// Lists of tensors are cut into chunks of equal size; a table of items and chunks on the device
// (kept from step to step) lets one launch serve all of them.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "ops/kernel.cuh"
#include "ops/optimizer.h"
#include "ops/philox.h"

namespace glmtune::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kSumRun = 1 << 15;  // as in SumSquares::workspace_bytes
constexpr int kAdamRun = 1 << 14;

struct SumChunk {
  const void* data;
  std::int32_t count;
  std::int32_t type;  // 0 F32, 1 BF16, 2 F64
};

template <class T>
__device__ double sum_of_squares(const T* x, int count) {
  double sum = 0;
  if constexpr (std::is_same_v<T, double>) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) sum += x[i] * x[i];
  } else {
    constexpr int V = kPackOf<T>;
    const bool aligned = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
    const int packed = aligned ? count / V * V : 0;
    for (int i = static_cast<int>(threadIdx.x) * V; i < packed; i += kThreads * V) {
      float v[V];
      unpack(load<T, V>(x + i), v);
#pragma unroll
      for (int k = 0; k < V; ++k) sum += static_cast<double>(v[k]) * static_cast<double>(v[k]);
    }
    for (int i = packed + static_cast<int>(threadIdx.x); i < count; i += kThreads) {
      const auto v = static_cast<double>(to_float(x[i]));
      sum += v * v;
    }
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    sum_squares_kernel(double* partials, const SumChunk* chunks) {
  __shared__ double shared[kThreads / 32];
  const SumChunk chunk = chunks[blockIdx.x];
  double sum = 0;
  if (chunk.type == 0)
    sum = sum_of_squares(static_cast<const float*>(chunk.data), chunk.count);
  else if (chunk.type == 1)
    sum = sum_of_squares(static_cast<const bf16*>(chunk.data), chunk.count);
  else
    sum = sum_of_squares(static_cast<const double*>(chunk.data), chunk.count);
  sum = block_sum<kThreads>(sum, shared);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(1024)
    add_partials_kernel(double* out, const double* partials, std::int64_t count) {
  __shared__ double shared[32];
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += 1024) sum += partials[i];
  sum = block_sum<1024>(sum, shared);
  if (threadIdx.x == 0) *out += sum;
}

// max_norm 0: no clipping.
__global__ void clip_factor_kernel(double* factor, const double* sum_squares, const double* loss,
                                   double max_norm) {
  const double f = max_norm > 0 ? max_norm / (sqrt(*sum_squares) + 1e-6) : 1.0;
  const bool finite = isfinite(*sum_squares) && (loss == nullptr || isfinite(*loss));
  *factor = !finite ? nan("") : f > 1 ? 1.0 : f;
}

struct AdamTensors {
  void *param, *remainder, *m, *v;
  const void* grad;
  std::uint64_t first_element;  // counted over all items
  double lr_mult, wd_mult;
};
struct AdamChunk {
  std::int64_t begin;
  std::int32_t item, count;
};
struct AdamSettings {
  const double* grad_scale;
  double lr, weight_decay, correction1;
  float take1, keep2, take2, root2, eps;
  bool decoupled;
  std::uint64_t seed, step;
};

enum class AdamParam : std::uint8_t { kF32, kBF16, kMaster, kStochastic, kRounded };

__device__ __forceinline__ float rounded(float x) {
  return __bfloat162float(__float2bfloat16_rn(x));
}

// Element i .. i + V of a chunk; P: how the parameter is stored.
template <AdamParam P, class Grad, class Moment, int V>
__device__ __forceinline__ void update(const AdamTensors& item, const AdamSettings& s,
                                       std::int64_t i, float scale, float keep, float coupled,
                                       float step_size) {
  float p[V], g[V], m[V], v[V];
  auto* moment1 = static_cast<Moment*>(item.m) + i;
  auto* moment2 = static_cast<Moment*>(item.v) + i;
  unpack(load<Grad, V>(static_cast<const Grad*>(item.grad) + i), g);
  unpack(load<Moment, V>(moment1), m);
  unpack(load<Moment, V>(moment2), v);
  if constexpr (P == AdamParam::kF32) {
    unpack(load<float, V>(static_cast<const float*>(item.param) + i), p);
  } else if constexpr (P == AdamParam::kMaster) {
    const auto high = load<std::uint16_t, V>(static_cast<const std::uint16_t*>(item.param) + i);
    const auto low = load<std::int16_t, V>(static_cast<const std::int16_t*>(item.remainder) + i);
#pragma unroll
    for (int k = 0; k < V; ++k)
      p[k] = __uint_as_float((static_cast<std::uint32_t>(high.v[k]) << 16) +
                             static_cast<std::uint32_t>(static_cast<std::int32_t>(low.v[k])));
  } else {
    unpack(load<bf16, V>(static_cast<const bf16*>(item.param) + i), p);
  }
#pragma unroll
  for (int k = 0; k < V; ++k) {
    if constexpr (P == AdamParam::kRounded) {
      g[k] = rounded(rounded(g[k]) * scale);
      if (s.decoupled)
        p[k] = rounded(p[k] * keep);
      else
        g[k] = rounded(g[k] + coupled * p[k]);
      // torch's lerp works from the nearer end.
      m[k] = rounded(s.take1 < 0.5F ? m[k] + s.take1 * (g[k] - m[k])
                                    : g[k] - (g[k] - m[k]) * (1 - s.take1));
      v[k] = rounded(rounded(v[k] * s.keep2) + s.take2 * (g[k] * g[k]));
      p[k] -= step_size * (m[k] / rounded(rounded(rounded(sqrtf(v[k])) / s.root2) + s.eps));
    } else {
      g[k] = g[k] * scale + coupled * p[k];
      m[k] += s.take1 * (g[k] - m[k]);
      v[k] = s.keep2 * v[k] + s.take2 * g[k] * g[k];
      p[k] = p[k] * keep - step_size * (m[k] / (sqrtf(v[k]) / s.root2 + s.eps));
    }
  }
  store<Moment, V>(moment1, pack<Moment, V>(m));
  store<Moment, V>(moment2, pack<Moment, V>(v));
  if constexpr (P == AdamParam::kF32) {
    store<float, V>(static_cast<float*>(item.param) + i, pack<float, V>(p));
  } else if constexpr (P == AdamParam::kMaster) {
    Pack<std::uint16_t, V> high, low;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      std::uint32_t bits = __float_as_uint(p[k]);
      // The carry of a NaN's low bits must not make a number of it.
      if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fc00000u;
      high.v[k] = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
      low.v[k] = static_cast<std::uint16_t>(bits);
    }
    store<std::uint16_t, V>(static_cast<std::uint16_t*>(item.param) + i, high);
    store<std::uint16_t, V>(static_cast<std::uint16_t*>(item.remainder) + i, low);
  } else if constexpr (P == AdamParam::kStochastic) {
    Pack<std::uint16_t, V> out;
    const std::uint64_t element = item.first_element + static_cast<std::uint64_t>(i);
    const bool whole = V == 8 && element % 8 == 0;
    Philox block{};  // serves eight elements from a multiple of eight
    if (whole) block = philox(s.seed, element / 8, s.step);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      std::uint32_t bits = __float_as_uint(p[k]);
      if ((bits & 0x7f800000u) == 0x7f800000u)  // infinite or NaN
        bits = static_cast<std::uint32_t>(__bfloat16_as_ushort(__float2bfloat16_rn(p[k]))) << 16;
      else
        bits += whole ? (block.word[k / 2] >> (k % 2 * 16)) & 0xffffu
                      : rounding_bits(s.seed, s.step, element + static_cast<std::uint64_t>(k));
      out.v[k] = static_cast<std::uint16_t>(bits >> 16);
    }
    store<std::uint16_t, V>(static_cast<std::uint16_t*>(item.param) + i, out);
  } else {
    store<bf16, V>(static_cast<bf16*>(item.param) + i, pack<bf16, V>(p));
  }
}

template <AdamParam P, class Grad, class Moment>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(const AdamTensors* items, const AdamChunk* chunks, AdamSettings s) {
  const auto scale = static_cast<float>(s.grad_scale != nullptr ? *s.grad_scale : 1.0);
  if (isnan(scale)) return;
  const AdamChunk chunk = chunks[blockIdx.x];
  const AdamTensors item = items[chunk.item];
  const double lr = s.lr * item.lr_mult, decay = s.weight_decay * item.wd_mult;
  const auto keep = static_cast<float>(s.decoupled ? 1 - lr * decay : 1.0);
  const auto coupled = static_cast<float>(s.decoupled ? 0.0 : decay);
  const auto step_size = static_cast<float>(lr / s.correction1);
  constexpr int V = P == AdamParam::kF32 ? 4 : 8;
  const auto unaligned = [](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % 16 != 0;
  };
  const bool packed = !unaligned(item.param) && !unaligned(item.remainder) &&
                      !unaligned(item.grad) && !unaligned(item.m) && !unaligned(item.v);
  const std::int64_t end = chunk.begin + chunk.count;
  const std::int64_t middle = packed ? chunk.begin + chunk.count / V * V : chunk.begin;
  for (std::int64_t i = chunk.begin + threadIdx.x * V; i < middle; i += kThreads * V)
    update<P, Grad, Moment, V>(item, s, i, scale, keep, coupled, step_size);
  for (std::int64_t i = middle + threadIdx.x; i < end; i += kThreads)
    update<P, Grad, Moment, 1>(item, s, i, scale, keep, coupled, step_size);
}

// Which kernel an item needs: parameter kind, gradient and moment types.
int kernel_of(const Adam& op, const AdamItem& item) {
  for (const Tensor* t : {&item.param, &item.grad, &item.m, &item.v})
    if (t->dtype != DType::kF32 && t->dtype != DType::kBF16)
      fail(cat("Adam: ", name_of(t->dtype),
               " on a CUDA device; it works on F32 and BF16 (use --device cpu for F64)"));
  if (item.m.dtype != item.v.dtype)
    fail(cat("Adam: m is ", name_of(item.m.dtype), " and v ", name_of(item.v.dtype),
             "; on a CUDA device both have one type"));
  AdamParam kind = AdamParam::kBF16;
  if (item.param.dtype == DType::kF32)
    kind = AdamParam::kF32;
  else if (item.remainder.defined())
    kind = AdamParam::kMaster;
  else if (op.stochastic_rounding)
    kind = AdamParam::kStochastic;
  else if (op.round_each_operation && item.m.dtype == DType::kBF16)
    kind = AdamParam::kRounded;
  return static_cast<int>(kind) * 4 + (item.grad.dtype == DType::kBF16 ? 2 : 0) +
         (item.m.dtype == DType::kBF16 ? 1 : 0);
}

using AdamKernel = void (*)(const AdamTensors*, const AdamChunk*, AdamSettings);
template <AdamParam P>
constexpr void add_kernels(AdamKernel* table) {
  table[0] = adam_kernel<P, float, float>;
  table[1] = adam_kernel<P, float, bf16>;
  table[2] = adam_kernel<P, bf16, float>;
  table[3] = adam_kernel<P, bf16, bf16>;
}

template <class T>
void append(std::vector<std::byte>& bytes, const std::vector<T>& values) {
  const std::size_t at = bytes.size();
  bytes.resize(at + values.size() * sizeof(T));
  std::memcpy(bytes.data() + at, values.data(), values.size() * sizeof(T));
}

}  // namespace

void run_cuda(Context& ctx, const SumSquares& op, Tensor workspace) {
  std::vector<SumChunk> chunks;
  for (const Tensor& t : op.items) {
    const int type = t.dtype == DType::kF32 ? 0 : t.dtype == DType::kBF16 ? 1 : 2;
    for (std::int64_t begin = 0; begin < t.count(); begin += kSumRun)
      chunks.push_back(
          {static_cast<const std::byte*>(t.data) +
               static_cast<std::size_t>(begin) * size_of(t.dtype),
           static_cast<std::int32_t>(std::min<std::int64_t>(kSumRun, t.count() - begin)), type});
  }
  if (chunks.empty()) return;
  const auto* table = static_cast<const SumChunk*>(
      cuda_of(ctx, "SumSquares").device_table(chunks.data(), chunks.size() * sizeof(SumChunk)));
  auto* partials = workspace.as<double>();
  sum_squares_kernel<<<static_cast<unsigned>(chunks.size()), kThreads, 0, stream_of(ctx)>>>(
      partials, table);
  add_partials_kernel<<<1, 1024, 0, stream_of(ctx)>>>(op.out.as<double>(), partials,
                                                      static_cast<std::int64_t>(chunks.size()));
  CHECK_LAUNCH();
}

void run_cuda(Context& ctx, const ClipFactor& op, Tensor) {
  const bool clips = op.max_norm > 0 && op.max_norm < std::numeric_limits<double>::infinity();
  clip_factor_kernel<<<1, 1, 0, stream_of(ctx)>>>(
      op.factor.as<double>(), op.sum_squares.as<const double>(),
      op.loss.defined() ? op.loss.as<const double>() : nullptr, clips ? op.max_norm : 0.0);
  CHECK_LAUNCH();
}

void run_cuda(Context& ctx, const Adam& op, Tensor) {
  std::vector<AdamTensors> items;
  std::vector<std::vector<AdamChunk>> chunks(20);  // by kernel
  std::uint64_t element = 0;
  for (const AdamItem& item : op.items) {
    auto& list = chunks[static_cast<std::size_t>(kernel_of(op, item))];
    const std::int64_t n = item.param.count();
    for (std::int64_t begin = 0; begin < n; begin += kAdamRun)
      list.push_back({begin, static_cast<std::int32_t>(items.size()),
                      static_cast<std::int32_t>(std::min<std::int64_t>(kAdamRun, n - begin))});
    items.push_back({.param = item.param.data,
                     .remainder = item.remainder.data,
                     .m = item.m.data,
                     .v = item.v.data,
                     .grad = item.grad.data,
                     .first_element = element,
                     .lr_mult = item.lr_mult,
                     .wd_mult = item.wd_mult});
    element += static_cast<std::uint64_t>(n);
  }
  std::vector<std::byte> bytes;
  append(bytes, items);
  std::vector<std::size_t> starts;
  for (const auto& list : chunks) {
    starts.push_back(bytes.size());
    append(bytes, list);
  }
  if (element == 0) return;
  const auto* table =
      static_cast<const std::byte*>(cuda_of(ctx, "Adam").device_table(bytes.data(), bytes.size()));
  const auto correction = [&](double beta) {
    return op.bias_correction ? 1 - std::pow(beta, static_cast<double>(op.step)) : 1.0;
  };
  const AdamSettings settings{
      .grad_scale = op.grad_scale.defined() ? op.grad_scale.as<const double>() : nullptr,
      .lr = op.lr,
      .weight_decay = op.weight_decay,
      .correction1 = correction(op.beta1),
      .take1 = static_cast<float>(1 - op.beta1),
      .keep2 = static_cast<float>(op.beta2),
      .take2 = static_cast<float>(1 - op.beta2),
      .root2 = static_cast<float>(std::sqrt(correction(op.beta2))),
      .eps = static_cast<float>(op.eps),
      .decoupled = op.decoupled,
      .seed = op.seed,
      .step = static_cast<std::uint64_t>(op.step)};
  AdamKernel kernels[20] = {};
  add_kernels<AdamParam::kF32>(kernels);
  add_kernels<AdamParam::kBF16>(kernels + 4);
  add_kernels<AdamParam::kMaster>(kernels + 8);
  add_kernels<AdamParam::kStochastic>(kernels + 12);
  add_kernels<AdamParam::kRounded>(kernels + 16);
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    if (chunks[k].empty()) continue;
    kernels[k]<<<static_cast<unsigned>(chunks[k].size()), kThreads, 0, stream_of(ctx)>>>(
        reinterpret_cast<const AdamTensors*>(table),
        reinterpret_cast<const AdamChunk*>(table + starts[k]), settings);
    CHECK_LAUNCH();
  }
}

}  // namespace glmtune::ops
