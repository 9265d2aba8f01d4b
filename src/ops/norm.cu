// RMSNorm and LayerNorm. Rows of packable width stay in registers between the statistics and the
// output (one read, one write); other widths go through device memory twice. A fixed number of
// blocks walks the rows, so that a block keeps its weights, and its share of the weight gradients,
// for all its rows; the shares are then added in block order: same inputs, same bits.
#include "cuda/sm90.cuh"
#include "ops/elementwise.h"
#include "ops/kernel.cuh"
#include "ops/norm.h"
#include "ops/norm_partials.h"

namespace glmtune::ops {
namespace {

template <int kThreads>
inline constexpr int kBlockOf = kThreads < 128 ? 128 : kThreads;
// Keeps the registers of a thread below what lets 768 threads run on a multiprocessor.
template <int kThreads>
inline constexpr int kBlocksPerSm = 768 / kBlockOf<kThreads>;

// Sums over the kThreads threads of one row; several rows share a block when kThreads < kBlock.
template <int kThreads, int kBlock>
__device__ __forceinline__ float row_sum(float x, float* shared) {
  if constexpr (kThreads == 32)
    return warp_sum(x);
  else
    return block_sum<kBlock>(x, shared);
}

// Narrow rows give a block too little to wait for: their next row is fetched ahead.
template <int kThreads>
inline constexpr bool kFetchesAhead = kThreads <= 128;

// kThreads threads a row, kPacks packs of V elements a thread.
template <class T, int kThreads, int kPacks>
__global__ void __launch_bounds__(kBlockOf<kThreads>, kBlocksPerSm<kThreads>)
    rms_norm_kernel(EvenRows<T> y, float* rstd, EvenRows<const T> x, const T* weight, float eps,
                    std::int64_t rows, int columns) {
  constexpr int V = kPackOf<T>, kBlock = kBlockOf<kThreads>;
  constexpr int kRowsPerBlock = kBlock / kThreads;
  __shared__ float shared[kBlock / 32];
  const int lane = static_cast<int>(threadIdx.x) % kThreads;
  Pack<T, V> w[kPacks], now[kPacks], next[kPacks];
  const auto fetch = [&](const T* row, Pack<T, V>(&to)[kPacks]) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int c = (p * kThreads + lane) * V;
      if (c < columns) to[p] = load<T, V>(row + c);
    }
  };
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRowsPerBlock;
  std::int64_t r = blockIdx.x * kRowsPerBlock + threadIdx.x / kThreads;
  if (kFetchesAhead<kThreads> && r < rows) fetch(x[r], next);
  fetch(weight, w);
  for (; r < rows; r += stride) {
    if constexpr (kFetchesAhead<kThreads>) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) now[p] = next[p];
      if (r + stride < rows) fetch(x[r + stride], next);
    } else {
      fetch(x[r], now);
    }
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if ((p * kThreads + lane) * V < columns) {
        float v[V];
        unpack(now[p], v);
#pragma unroll
        for (int i = 0; i < V; ++i) sum += v[i] * v[i];
      }
    }
    sum = row_sum<kThreads, kBlock>(sum, shared);
    const float scale = 1.0f / sqrtf(sum / static_cast<float>(columns) + eps);
    if (lane == 0) rstd[r] = scale;
    T* out = y[r];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int c = (p * kThreads + lane) * V;
      if (c < columns) {
        float v[V], g[V];
        unpack(now[p], v);
        unpack(w[p], g);
#pragma unroll
        for (int i = 0; i < V; ++i) g[i] = v[i] * scale * g[i];
        store<T, V>(out + c, pack<T, V>(g));
      }
    }
  }
}

constexpr int kRing = 3;  // most rows of an operand on their way to a block

// dx, and this block's share of dweight into partials[blockIdx.x] (null: frozen). The copy engine
// brings the rows, so that loads are in flight while a row is reduced.
template <class T, int kThreads, int kPacks>
__global__ void __launch_bounds__(kThreads, kPacks > 2 ? 1 : 768 / kThreads)
    rms_norm_backward_kernel(EvenRows<T> dx, float* partials, EvenRows<const T> dy,
                             EvenRows<const T> x, const T* weight, const float* rstd,
                             EvenRows<const T> residual, std::int64_t rows, int columns,
                             int depth) {
  constexpr int V = kPackOf<T>;
  extern __shared__ __align__(128) std::uint8_t ring[];
  __shared__ std::uint64_t full[kRing];
  __shared__ float shared[kThreads / 32];
  const int operands = residual.data != nullptr ? 3 : 2;
  const auto row_bytes = static_cast<std::uint32_t>(columns * static_cast<int>(sizeof(T)));
  const auto slot = [&](int at, int operand) {
    return ring + static_cast<std::uint32_t>(at * operands + operand) * row_bytes;
  };
  const auto fetch = [&](std::int64_t r, int at) {
    if (r >= rows) return;
    sm90::mbarrier_arrive_expect(&full[at], row_bytes * static_cast<std::uint32_t>(operands));
    sm90::bulk_load(slot(at, 0), x[r], row_bytes, &full[at]);
    sm90::bulk_load(slot(at, 1), dy[r], row_bytes, &full[at]);
    if (operands == 3) sm90::bulk_load(slot(at, 2), residual[r], row_bytes, &full[at]);
  };
  if (threadIdx.x == 0) {
    for (std::uint64_t& bar : full) sm90::mbarrier_init(&bar, 1);
    sm90::fence_mbarrier_init();
    for (int at = 0; at < depth; ++at)
      fetch(blockIdx.x + static_cast<std::int64_t>(at) * gridDim.x, at);
  }
  __syncthreads();
  float dw[kPacks][V] = {};
  int at = 0;
  std::uint32_t phase = 0;
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float scale = rstd[r];
    sm90::mbarrier_wait(&full[at], phase);
    Pack<T, V> x_pack[kPacks], dy_pack[kPacks], residual_pack[kPacks];
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int c = (p * kThreads + static_cast<int>(threadIdx.x)) * V;
      if (c < columns) {
        x_pack[p] = load<T, V>(reinterpret_cast<const T*>(slot(at, 0)) + c);
        dy_pack[p] = load<T, V>(reinterpret_cast<const T*>(slot(at, 1)) + c);
        if (operands == 3)
          residual_pack[p] = load<T, V>(reinterpret_cast<const T*>(slot(at, 2)) + c);
        float a[V], b[V], g[V];
        unpack(x_pack[p], a);
        unpack(dy_pack[p], b);
        unpack(load<T, V>(weight + c), g);  // from L1: in registers it would cost occupancy
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const float normed = a[i] * scale;
          dw[p][i] += b[i] * normed;
          sum += b[i] * g[i] * normed;
        }
      }
    }
    sum = block_sum<kThreads>(sum, shared);  // past it, all threads have read their slot
    if (threadIdx.x == 0) fetch(r + static_cast<std::int64_t>(depth) * gridDim.x, at);
    if (++at == depth) {
      at = 0;
      phase ^= 1;
    }
    const float mean = sum / static_cast<float>(columns);
    T* out = dx[r];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int c = (p * kThreads + static_cast<int>(threadIdx.x)) * V;
      if (c < columns) {
        float a[V], b[V], g[V], extra[V] = {};
        unpack(x_pack[p], a);
        unpack(dy_pack[p], b);
        unpack(load<T, V>(weight + c), g);
        if (operands == 3) unpack(residual_pack[p], extra);
#pragma unroll
        for (int i = 0; i < V; ++i) a[i] = scale * (b[i] * g[i] - a[i] * scale * mean) + extra[i];
        store<T, V>(out + c, pack<T, V>(a));
      }
    }
  }
  if (partials == nullptr) return;
  float* mine = partials + static_cast<std::int64_t>(blockIdx.x) * columns;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int c = (p * kThreads + static_cast<int>(threadIdx.x)) * V;
    if (c < columns) {
#pragma unroll
      for (int i = 0; i < V; i += 4)
        store<float, 4>(mine + c + i, {dw[p][i], dw[p][i + 1], dw[p][i + 2], dw[p][i + 3]});
    }
  }
}

constexpr int kPlainThreads = 256;

// Any width and alignment; kCentered: LayerNorm (mean, bias), else RMSNorm.
template <class T, bool kCentered>
__global__ void __launch_bounds__(kPlainThreads)
    plain_norm_kernel(Rows<T> y, float* mean, float* rstd, Rows<const T> x, const T* weight,
                      const T* bias, float eps) {
  __shared__ float shared[kPlainThreads / 32];
  const auto columns = static_cast<float>(x.columns);
  for (std::int64_t r = blockIdx.x; r < x.rows; r += gridDim.x) {
    const T* in = x[r];
    float center = 0;
    if constexpr (kCentered) {
      for (std::int64_t c = threadIdx.x; c < x.columns; c += kPlainThreads)
        center += to_float(in[c]);
      center = block_sum<kPlainThreads>(center, shared) / columns;
    }
    float sum = 0;
    for (std::int64_t c = threadIdx.x; c < x.columns; c += kPlainThreads) {
      const float v = to_float(in[c]) - center;
      sum += v * v;
    }
    sum = block_sum<kPlainThreads>(sum, shared);
    const float scale = 1.0f / sqrtf(sum / columns + eps);
    if (threadIdx.x == 0) {
      rstd[r] = scale;
      if constexpr (kCentered) mean[r] = center;
    }
    T* out = y[r];
    for (std::int64_t c = threadIdx.x; c < x.columns; c += kPlainThreads) {
      float v = (to_float(in[c]) - center) * scale * to_float(weight[c]);
      if constexpr (kCentered) v += to_float(bias[c]);
      out[c] = from_float<T>(v);
    }
  }
}

// Block b's shares of dweight and dbias lie in partials[b] and bias_partials[b]; null: frozen.
template <class T, bool kCentered>
__global__ void __launch_bounds__(kPlainThreads)
    plain_norm_backward_kernel(Rows<T> dx, float* partials, float* bias_partials, Rows<const T> dy,
                               Rows<const T> x, const T* weight, const float* mean,
                               const float* rstd, Rows<const T> residual) {
  __shared__ float shared[kPlainThreads / 32];
  const auto columns = static_cast<float>(x.columns);
  for (std::int64_t r = blockIdx.x; r < x.rows; r += gridDim.x) {
    const T *in = x[r], *grad = dy[r];
    const float scale = rstd[r], center = kCentered ? mean[r] : 0.0f;
    float sum = 0, plain = 0;
    for (std::int64_t c = threadIdx.x; c < x.columns; c += kPlainThreads) {
      const float g = to_float(grad[c]), a = g * to_float(weight[c]);
      const float normed = (to_float(in[c]) - center) * scale;
      sum += a * normed;
      plain += a;
      // Each thread meets its own columns only.
      const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * x.columns + c;
      const bool first = r == blockIdx.x;
      if (partials != nullptr) partials[i] = (first ? 0.0f : partials[i]) + g * normed;
      if (bias_partials != nullptr) bias_partials[i] = (first ? 0.0f : bias_partials[i]) + g;
    }
    const float mean_product = block_sum<kPlainThreads>(sum, shared) / columns;
    const float mean_plain = kCentered ? block_sum<kPlainThreads>(plain, shared) / columns : 0.0f;
    T* out = dx[r];
    for (std::int64_t c = threadIdx.x; c < x.columns; c += kPlainThreads) {
      const float a = to_float(grad[c]) * to_float(weight[c]);
      const float normed = (to_float(in[c]) - center) * scale;
      float v = scale * (a - mean_plain - normed * mean_product);
      if (residual.data != nullptr) v += to_float(residual[r][c]);
      out[c] = from_float<T>(v);
    }
  }
}

// out[c] += Σ_b partials[b, c] in the order of b: a warp adds a contiguous eighth of the blocks
// for 32 columns, then the eighths are added in order.
template <class T>
__global__ void __launch_bounds__(256)
    add_partials_kernel(T* out, const float* partials, int parts, int columns, bool overwrite) {
  __shared__ float shared[8][32];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int c = static_cast<int>(blockIdx.x) * 32 + lane;
  const int share = (parts + 7) / 8, end = min(parts, (warp + 1) * share);
  float sum = 0;
  if (c < columns)
    for (int b = warp * share; b < end; ++b)
      sum += partials[static_cast<std::int64_t>(b) * columns + c];
  shared[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || c >= columns) return;
#pragma unroll
  for (int w = 1; w < 8; ++w) sum += shared[w][lane];
  out[c] = from_float<T>(overwrite ? sum : to_float(out[c]) + sum);
}

void add_partials(const Context& ctx, const Tensor& out, const float* partials, int parts,
                  bool overwrite = false) {
  const auto columns = static_cast<int>(out.count());
  dispatch_gpu(out.dtype, "norm gradient", [&](auto tag) {
    using T = typename decltype(tag)::type;
    add_partials_kernel<<<static_cast<unsigned>(ceil_div(columns, 32)), 256, 0, stream_of(ctx)>>>(
        out.as<T>(), partials, parts, columns, overwrite);
    CHECK_LAUNCH();
  });
}

// Calls f(threads, packs) with the smallest shape that holds a row of `columns`, or returns false.
template <int kThreads, int kPacks>
struct RowShape {
  static constexpr int threads = kThreads, packs = kPacks;
};
template <class T, class F>
bool dispatch_row_shape(std::int64_t columns, F&& f) {
  const std::int64_t packs = ceil_div(columns, kPackOf<T>);
  if (packs <= 32)
    f(RowShape<32, 1>{});
  else if (packs <= 64)
    f(RowShape<32, 2>{});
  else if (packs <= 128)
    f(RowShape<128, 1>{});
  else if (packs <= 256)
    f(RowShape<128, 2>{});
  else if (packs <= 512)
    f(RowShape<256, 2>{});
  else if (packs <= 768)
    f(RowShape<384, 2>{});
  else if (packs <= 1024)
    f(RowShape<512, 2>{});
  else if (packs <= 1536)
    f(RowShape<512, 3>{});
  else if (packs <= 2048)
    f(RowShape<512, 4>{});
  else
    return false;
  return true;
}

// The backward's shapes: whole blocks a row, whose ring of rows fits in shared memory.
constexpr int kMaxRingBytes = 224 * 1024;
template <class T, class F>
bool dispatch_backward_shape(std::int64_t columns, F&& f) {
  const std::int64_t packs = ceil_div(columns, kPackOf<T>);
  if (6 * packs * 16 > kMaxRingBytes) return false;
  if (packs <= 64)
    f(RowShape<64, 1>{});
  else if (packs <= 128)
    f(RowShape<128, 1>{});
  else if (packs <= 256)
    f(RowShape<128, 2>{});
  else if (packs <= 512)
    f(RowShape<256, 2>{});
  else if (packs <= 768)
    f(RowShape<384, 2>{});
  else if (packs <= 1536)
    f(RowShape<384, 4>{});
  else
    return false;
  return true;
}

constexpr std::int64_t rows_per_block(int threads) {
  return threads < 128 ? 128 / threads : 1;
}

}  // namespace

void run_cuda(Context& ctx, const RmsNorm& op, Tensor) {
  if (op.x.count() == 0) return;
  const auto sms = cuda_of(ctx, "RmsNorm").multiprocessors;
  dispatch_gpu(op.x.dtype, "RmsNorm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows<T> y(op.y);
    const Rows<const T> x(op.x);
    const auto* weight = op.weight.as<const T>();
    auto* rstd = op.rstd.as<float>();
    const auto eps = static_cast<float>(op.eps);
    const bool fits = rows_are_even({op.y, op.x}) &&
                      all_pack({op.y, op.x, op.weight}, kPackOf<T>) &&
                      dispatch_row_shape<T>(x.columns, [&](auto shape) {
                        constexpr int kThreads = shape.threads, kPacks = shape.packs;
                        constexpr int kBlock = kBlockOf<kThreads>;
                        const std::int64_t blocks = std::min<std::int64_t>(
                            ceil_div(x.rows, rows_per_block(kThreads)), sms * (2048 / kBlock));
                        rms_norm_kernel<T, kThreads, kPacks>
                            <<<static_cast<unsigned>(blocks), kBlock, 0, stream_of(ctx)>>>(
                                EvenRows<T>(y), rstd, EvenRows<const T>(x), weight, eps, x.rows,
                                static_cast<int>(x.columns));
                      });
    if (!fits)
      plain_norm_kernel<T, false>
          <<<static_cast<unsigned>(std::min<std::int64_t>(x.rows, sms * 8)), kPlainThreads, 0,
             stream_of(ctx)>>>(y, nullptr, rstd, x, weight, nullptr, eps);
    CHECK_LAUNCH();
  });
}

void run_cuda(Context& ctx, const RmsNormBackward& op, Tensor workspace) {
  if (op.x.count() == 0) {
    if (op.overwrite_dweight && op.dweight.defined() && op.dweight.count() > 0)
      run_cuda(ctx, Fill{.x = op.dweight, .value = 0}, {});
    return;
  }
  const std::int64_t sms = cuda_of(ctx, "RmsNormBackward").multiprocessors;
  dispatch_gpu(op.x.dtype, "RmsNormBackward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows<T> dx(op.dx);
    const Rows<const T> dy(op.dy), x(op.x), residual(op.residual);
    const auto* weight = op.weight.as<const T>();
    const auto* rstd = op.rstd.as<const float>();
    auto* partials = op.dweight.defined() ? workspace.as<float>() : nullptr;
    int parts = 0;
    const bool fits =
        rows_are_even({op.dx, op.dy, op.x, op.residual}) &&
        all_pack({op.dx, op.dy, op.x, op.weight, op.residual}, kPackOf<T>) &&
        dispatch_backward_shape<T>(x.columns, [&](auto shape) {
          constexpr int kThreads = shape.threads, kPacks = shape.packs;
          // Six rows in all: what two blocks leave of the memory is the weights' L1.
          const int depth = op.residual.defined() ? 2 : kRing;
          const std::int64_t shared = 6 * x.columns * static_cast<std::int64_t>(sizeof(T));
          const std::int64_t resident = std::clamp<std::int64_t>(
              std::min<std::int64_t>(kPacks > 2 ? 1 : 768 / kThreads, kMaxRingBytes / shared), 1,
              4);
          const std::int64_t blocks = std::min({x.rows, norm_partials(x.columns), sms * resident});
          parts = static_cast<int>(blocks);
          const auto kernel = rms_norm_backward_kernel<T, kThreads, kPacks>;
          static const cudaError_t raised = cudaFuncSetAttribute(
              kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxRingBytes);
          CUDA_CHECK(raised);
          kernel<<<static_cast<unsigned>(blocks), kThreads, static_cast<std::size_t>(shared),
                   stream_of(ctx)>>>(
              EvenRows<T>(dx), partials, EvenRows<const T>(dy), EvenRows<const T>(x), weight, rstd,
              EvenRows<const T>(residual), x.rows, static_cast<int>(x.columns), depth);
        });
    if (!fits) {
      parts = static_cast<int>(std::min<std::int64_t>(x.rows, norm_partials(x.columns)));
      plain_norm_backward_kernel<T, false>
          <<<static_cast<unsigned>(parts), kPlainThreads, 0, stream_of(ctx)>>>(
              dx, partials, nullptr, dy, x, weight, nullptr, rstd, residual);
    }
    CHECK_LAUNCH();
    if (op.dweight.defined()) add_partials(ctx, op.dweight, partials, parts, op.overwrite_dweight);
  });
}

void run_cuda(Context& ctx, const LayerNorm& op, Tensor) {
  if (op.x.count() == 0) return;
  const auto sms = cuda_of(ctx, "LayerNorm").multiprocessors;
  dispatch_gpu(op.x.dtype, "LayerNorm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows<const T> x(op.x);
    plain_norm_kernel<T, true><<<static_cast<unsigned>(std::min<std::int64_t>(x.rows, sms * 8)),
                                 kPlainThreads, 0, stream_of(ctx)>>>(
        Rows<T>(op.y), op.mean.as<float>(), op.rstd.as<float>(), x, op.weight.as<const T>(),
        op.bias.as<const T>(), static_cast<float>(op.eps));
    CHECK_LAUNCH();
  });
}

void run_cuda(Context& ctx, const LayerNormBackward& op, Tensor workspace) {
  if (op.x.count() == 0) return;
  dispatch_gpu(op.x.dtype, "LayerNormBackward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows<const T> x(op.x);
    const int parts = static_cast<int>(std::min<std::int64_t>(x.rows, norm_partials(x.columns)));
    float* partials = op.dweight.defined() ? workspace.as<float>() : nullptr;
    float* bias_partials =
        op.dbias.defined() ? workspace.as<float>() + norm_partials(x.columns) * x.columns : nullptr;
    plain_norm_backward_kernel<T, true>
        <<<static_cast<unsigned>(parts), kPlainThreads, 0, stream_of(ctx)>>>(
            Rows<T>(op.dx), partials, bias_partials, Rows<const T>(op.dy), x,
            op.weight.as<const T>(), op.mean.as<const float>(), op.rstd.as<const float>(),
            Rows<const T>());
    CHECK_LAUNCH();
    if (op.dweight.defined()) add_partials(ctx, op.dweight, partials, parts);
    if (op.dbias.defined()) add_partials(ctx, op.dbias, bias_partials, parts);
  });
}

}  // namespace glmtune::ops
