#include "ops/kernel.cuh"
#include "ops/rows.h"
#include "ops/rows_cuda.cuh"

namespace glmtune::ops {
namespace {

constexpr int kThreads = 128;
constexpr int kCopyThreads = 192;  // times four words: a BF16 row of 6144 in one step
constexpr int kUnroll = 4;         // words a thread has in flight

// What a thread moves of a row at a time: words of up to 16 bytes, every kCopyThreads-th.
template <class Word>
struct Piece {
  Word word[kUnroll];

  // From word `first` on, of `words` in the row.
  __device__ __forceinline__ void read(const void* row, std::int64_t first, std::int64_t words) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * kCopyThreads < words)
        word[u] = static_cast<const Word*>(row)[first + u * kCopyThreads];
  }
  __device__ __forceinline__ void write(void* row, std::int64_t first, std::int64_t words) const {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * kCopyThreads < words)
        static_cast<Word*>(row)[first + u * kCopyThreads] = word[u];
  }
};

// y[r] = x[index[r]]. All bits set (NaN) for a row outside x: no stray read.
template <class T, class Word>
__global__ void __launch_bounds__(kCopyThreads)
    gather_rows_kernel(Rows<T> y, Rows<const T> x, const std::int32_t* index) {
  const std::int64_t r = blockIdx.x, from = index[r];
  const std::int64_t words = y.columns * static_cast<std::int64_t>(sizeof(T)) / sizeof(Word);
  const bool known = from >= 0 && from < x.rows;
  for (std::int64_t i = threadIdx.x; i < words; i += kUnroll * kCopyThreads) {
    Piece<Word> piece;
    if (known)
      piece.read(x[from], i, words);
    else
      memset(&piece, 0xff, sizeof piece);
    piece.write(y[r], i, words);
  }
}

// y[row_of_slot[t, j]] = x[t] for all slots j: x is read once.
template <class T, class Word>
__global__ void __launch_bounds__(kCopyThreads)
    spread_rows_kernel(Rows<T> y, Rows<const T> x, const std::int32_t* row_of_slot, int slots) {
  const std::int64_t t = blockIdx.x;
  const std::int64_t words = x.columns * static_cast<std::int64_t>(sizeof(T)) / sizeof(Word);
  for (std::int64_t i = threadIdx.x; i < words; i += kUnroll * kCopyThreads) {
    Piece<Word> piece;
    piece.read(x[t], i, words);
    for (int j = 0; j < slots; ++j) piece.write(y[row_of_slot[t * slots + j]], i, words);
  }
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    combine_rows_kernel(Rows<T> y, Rows<const T> x, const std::int32_t* row_of_slot, int slots,
                        std::int64_t slot_stride, Rows<const T> base) {
  const std::int64_t t = blockIdx.x;
  const std::int32_t* rows = row_of_slot + t * slot_stride;
  T* out = y[t];
  const T* start = base.data != nullptr ? base[t] : nullptr;
  for (std::int64_t c = threadIdx.x * V; c < y.columns; c += kThreads * V) {
    float sum[V] = {};
    if (start != nullptr) unpack(load<T, V>(start + c), sum);
#pragma unroll 8
    for (int j = 0; j < slots; ++j) {
      float v[V];
      unpack(load<T, V>(x[rows[j]] + c), v);
#pragma unroll
      for (int i = 0; i < V; ++i) sum[i] += v[i];
    }
    store<T, V>(out + c, pack<T, V>(sum));
  }
}

// Calls f(TypeTag<T>, TypeTag<Word>) for rows that only move: elements of 2 or 4 bytes, words of 16
// where the rows allow it.
template <class F>
void dispatch_moved(const char* op, const Tensor& y, const Tensor& x, F&& f) {
  const auto packed = [&](auto tag) {
    if (all_pack({y, x}, kPackOf<typename decltype(tag)::type>))
      f(tag, TypeTag<uint4>{});
    else
      f(tag, tag);
  };
  switch (size_of(y.dtype)) {
    case 2:
      return packed(TypeTag<std::uint16_t>{});
    case 4:
      return packed(TypeTag<std::uint32_t>{});
    default:
      fail(cat(op, ": ", name_of(y.dtype),
               " on a CUDA device; elements of 2 or 4 bytes are expected"));
  }
}

void spread_rows(Context& ctx, const char* op, const Tensor& y, const Tensor& x,
                 const Tensor& row_of_slot, int slots) {
  if (x.count() == 0) return;
  dispatch_moved(op, y, x, [&](auto tag, auto word) {
    using T = typename decltype(tag)::type;
    using Word = typename decltype(word)::type;
    spread_rows_kernel<T, Word>
        <<<static_cast<unsigned>(x.size(0)), kCopyThreads, 0, stream_of(ctx)>>>(
            Rows<T>(y), Rows<const T>(x), row_of_slot.as<const std::int32_t>(), slots);
    CHECK_LAUNCH();
  });
}

}  // namespace

void gather_rows(Context& ctx, const char* op, const Tensor& y, const Tensor& x,
                 const Tensor& index) {
  if (y.count() == 0) return;
  dispatch_moved(op, y, x, [&](auto tag, auto word) {
    using T = typename decltype(tag)::type;
    using Word = typename decltype(word)::type;
    gather_rows_kernel<T, Word>
        <<<static_cast<unsigned>(y.size(0)), kCopyThreads, 0, stream_of(ctx)>>>(
            Rows<T>(y), Rows<const T>(x), index.as<const std::int32_t>());
    CHECK_LAUNCH();
  });
}

void run_cuda(Context& ctx, const GatherRows& op, Tensor) {
  gather_rows(ctx, "GatherRows", op.y, op.x, op.index);
}

void run_cuda(Context& ctx, const ScatterRows& op, Tensor) {
  spread_rows(ctx, "ScatterRows", op.y, op.x, op.index, 1);
}

void run_cuda(Context& ctx, const SpreadRows& op, Tensor) {
  spread_rows(ctx, "SpreadRows", op.y, op.x, op.row_of_slot,
              static_cast<int>(op.row_of_slot.size(1)));
}

void run_cuda(Context& ctx, const CombineRows& op, Tensor) {
  if (op.y.count() == 0) return;
  dispatch_gpu(op.y.dtype, "CombineRows", [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = kPackOf<T>;
    const auto kernel =
        all_pack({op.y, op.x, op.base}, V) ? combine_rows_kernel<T, V> : combine_rows_kernel<T, 1>;
    kernel<<<static_cast<unsigned>(op.y.size(0)), kThreads, 0, stream_of(ctx)>>>(
        Rows<T>(op.y), Rows<const T>(op.x), op.row_of_slot.as<const std::int32_t>(),
        static_cast<int>(op.row_of_slot.size(1)), op.row_of_slot.stride(0), Rows<const T>(op.base));
    CHECK_LAUNCH();
  });
}

}  // namespace glmtune::ops
