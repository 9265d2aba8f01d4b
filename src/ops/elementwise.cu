#include "ops/elementwise.h"
#include "ops/kernel.cuh"

namespace glmtune::ops {
namespace {

constexpr int kThreads = 256;

// A tensor that is dense as a whole is one long row.
Tensor flattened(const Tensor& t) {
  return t.contiguous() ? t.reshape({t.count()}) : t;
}

// f(out pointer, in pointers ...) for packs of V elements of every row.
template <int V, class F, class Out, class... In>
__global__ void __launch_bounds__(kThreads)
    map_kernel(F f, Rows<Out> out, std::int64_t packs_per_row, std::int64_t count, Rows<In>... in) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  std::int64_t row = 0, column = i;
  if (out.rows > 1) {
    row = i / packs_per_row;
    column = i - row * packs_per_row;
  }
  f(out[row] + column * V, (in[row] + column * V)...);
}

template <int V, class Out, class... In, class F>
void map(const Context& ctx, F f, const Tensor& out, const In&... in) {
  const Rows<Out> rows(out);
  const std::int64_t per_row = rows.columns / V, count = per_row * rows.rows;
  if (count == 0) return;
  map_kernel<V><<<static_cast<unsigned>(ceil_div(count, kThreads)), kThreads, 0, stream_of(ctx)>>>(
      f, rows, per_row, count, in...);
  CHECK_LAUNCH();
}

template <class T>
struct AddPacks {
  template <int V>
  struct Of {
    __device__ void operator()(T* out, const T* a, const T* b) const {
      float x[V], y[V];
      unpack(load<T, V>(a), x);
      unpack(load<T, V>(b), y);
#pragma unroll
      for (int i = 0; i < V; ++i) x[i] += y[i];
      store<T, V>(out, pack<T, V>(x));
    }
  };
};

template <class Dst, class Src>
__device__ __forceinline__ Dst convert(Src x) {
  if constexpr (std::is_same_v<Dst, Src>)
    return x;
  else if constexpr (std::is_same_v<Dst, double>)
    return static_cast<double>(to_float(x));
  else
    return from_float<Dst>(to_float(x));  // double → float → 16 bits, as the CPU does
}

template <class Dst, class Src, int V>
struct CopyPacks {
  __device__ void operator()(Dst* dst, const Src* src) const {
    const Pack<Src, V> x = load<Src, V>(src);
    Pack<Dst, V> y;
#pragma unroll
    for (int i = 0; i < V; ++i) y.v[i] = convert<Dst>(x.v[i]);
    store<Dst, V>(dst, y);
  }
};

template <class T, int V>
struct FillPacks {
  T value;
  __device__ void operator()(T* x) const {
    Pack<T, V> y;
#pragma unroll
    for (int i = 0; i < V; ++i) y.v[i] = value;
    store<T, V>(x, y);
  }
};

template <class T, int V>
struct ScalePacks {
  float factor;
  __device__ void operator()(T* x) const {
    float y[V];
    unpack(load<T, V>(x), y);
#pragma unroll
    for (int i = 0; i < V; ++i) y[i] *= factor;
    store<T, V>(x, pack<T, V>(y));
  }
};

template <class F>
void dispatch_copy_type(DType t, F&& f) {
  switch (t) {
    case DType::kF64:
      return f(TypeTag<double>{});
    case DType::kF32:
      return f(TypeTag<float>{});
    case DType::kBF16:
      return f(TypeTag<bf16>{});
    case DType::kF16:
      return f(TypeTag<__half>{});
    default:
      fail(cat("Copy: ", name_of(t), " is not a floating type"));
  }
}

template <class T>
__global__ void __launch_bounds__(1024) add_sum_kernel(double* out, const T* x, std::int64_t n) {
  __shared__ double shared[32];
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += 1024) sum += static_cast<double>(x[i]);
  sum = block_sum<1024>(sum, shared);
  if (threadIdx.x == 0) *out += sum;
}

}  // namespace

void run_cuda(Context& ctx, const Add& op, Tensor) {
  const bool dense = op.out.contiguous() && op.a.contiguous() && op.b.contiguous();
  const Tensor out = dense ? flattened(op.out) : op.out, a = dense ? flattened(op.a) : op.a,
               b = dense ? flattened(op.b) : op.b;
  dispatch_gpu(out.dtype, "Add", [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = kPackOf<T>;
    if (all_pack({out, a, b}, V))
      map<V, T>(ctx, typename AddPacks<T>::template Of<V>{}, out, Rows<const T>(a),
                Rows<const T>(b));
    else
      map<1, T>(ctx, typename AddPacks<T>::template Of<1>{}, out, Rows<const T>(a),
                Rows<const T>(b));
  });
}

void run_cuda(Context& ctx, const Copy& op, Tensor) {
  const bool dense = op.dst.contiguous() && op.src.contiguous();
  const Tensor dst = dense ? flattened(op.dst) : op.dst, src = dense ? flattened(op.src) : op.src;
  dispatch_copy_type(dst.dtype, [&](auto dst_tag) {
    dispatch_copy_type(src.dtype, [&](auto src_tag) {
      using Dst = typename decltype(dst_tag)::type;
      using Src = typename decltype(src_tag)::type;
      constexpr int V = std::max(kPackOf<Dst>, kPackOf<Src>);
      if (all_pack({dst, src}, V))
        map<V, Dst>(ctx, CopyPacks<Dst, Src, V>{}, dst, Rows<const Src>(src));
      else
        map<1, Dst>(ctx, CopyPacks<Dst, Src, 1>{}, dst, Rows<const Src>(src));
    });
  });
}

void run_cuda(Context& ctx, const Fill& op, Tensor) {
  const Tensor x = flattened(op.x);
  dispatch_copy_type(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = kPackOf<T>;
    const T value = [&] {
      if constexpr (std::is_same_v<T, double>)
        return op.value;
      else if constexpr (std::is_same_v<T, float>)
        return static_cast<float>(op.value);
      else if constexpr (std::is_same_v<T, bf16>)
        return __float2bfloat16_rn(static_cast<float>(op.value));
      else
        return __float2half_rn(static_cast<float>(op.value));
    }();
    if (packs(x, V))
      map<V, T>(ctx, FillPacks<T, V>{value}, x);
    else
      map<1, T>(ctx, FillPacks<T, 1>{value}, x);
  });
}

void run_cuda(Context& ctx, const Scale& op, Tensor) {
  const Tensor x = flattened(op.x);
  dispatch_gpu(x.dtype, "Scale", [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = kPackOf<T>;
    const auto factor = static_cast<float>(op.factor);
    if (packs(x, V))
      map<V, T>(ctx, ScalePacks<T, V>{factor}, x);
    else
      map<1, T>(ctx, ScalePacks<T, 1>{factor}, x);
  });
}

void run_cuda(Context& ctx, const AddSum& op, Tensor) {
  const auto n = op.x.count();
  auto* out = op.out.as<double>();
  if (op.x.dtype == DType::kF64)
    add_sum_kernel<<<1, 1024, 0, stream_of(ctx)>>>(out, op.x.as<const double>(), n);
  else if (op.x.dtype == DType::kF32)
    add_sum_kernel<<<1, 1024, 0, stream_of(ctx)>>>(out, op.x.as<const float>(), n);
  else
    fail(cat("AddSum: x of ", name_of(op.x.dtype), "; F32 or F64 is expected"));
  CHECK_LAUNCH();
}

}  // namespace glmtune::ops
