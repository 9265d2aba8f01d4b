#include "ops/gemm.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ops/gemm_library.h"
#include "tensor/tensor.h"

namespace glmtune::ops {
namespace {

// The register tile: kRows × 2 vectors of accumulators, as many as the register file holds beside
// two vectors of b and one of a.
#ifdef __AVX512F__
constexpr std::int64_t kVectorBytes = 64, kRows = 12;
#else
constexpr std::int64_t kVectorBytes = 32, kRows = 6;
#endif
template <class W>
constexpr std::int64_t kLanes = kVectorBytes / static_cast<std::int64_t>(sizeof(W));
template <class W>
constexpr std::int64_t kColumns = 2 * kLanes<W>;

// Block sizes: a panel of b (K × kColumns) stays in the first-level cache while it meets all rows
// of a block of a, which stays in the second; the packed block of b lives in the third.
constexpr std::int64_t kBlockBytesK = 2048;
template <class W>
constexpr std::int64_t kBlockK = kBlockBytesK / static_cast<std::int64_t>(sizeof(W));
constexpr std::int64_t kBlockM = 12 * kRows;
constexpr std::int64_t kBlockN = 1024;
constexpr std::int64_t kTileM = 4 * kBlockM, kTileN = 512;

template <class W>
using Vector [[gnu::vector_size(kVectorBytes)]] = W;

template <class W>
Vector<W> load(const W* p) {
  Vector<W> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// tile[i][j] = Σ_k a[k][i] b[k][j] over one packed panel of each.
template <class W>
[[gnu::always_inline]] inline void kernel(std::int64_t K, const W* __restrict a,
                                          const W* __restrict b, Vector<W> (&acc)[kRows][2]) {
  constexpr std::int64_t L = kLanes<W>;
  for (std::int64_t k = 0; k < K; ++k) {
    const Vector<W> b0 = load(b), b1 = load(b + L);
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kRows; ++i) {
      acc[i][0] += a[i] * b0;
      acc[i][1] += a[i] * b1;
    }
    a += kRows;
    b += 2 * L;
  }
}

// Lanes of a and b in turn: the first halves of both, or the second halves.
template <class W, std::size_t... I>
Vector<W> interleave_low(Vector<W> a, Vector<W> b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (I % 2 == 0 ? I / 2 : sizeof...(I) + I / 2)...);
}
template <class W, std::size_t... I>
Vector<W> interleave_high(Vector<W> a, Vector<W> b, std::index_sequence<I...>) {
  constexpr std::size_t L = sizeof...(I);
  return __builtin_shufflevector(a, b, (I % 2 == 0 ? L / 2 + I / 2 : L + L / 2 + I / 2)...);
}

// Transposes a square of vectors: log2(L) perfect shuffles of its rows.
template <class W>
void transpose(Vector<W> (&v)[kLanes<W>]) {
  constexpr std::int64_t L = kLanes<W>;
  constexpr auto lanes = std::make_index_sequence<static_cast<std::size_t>(L)>{};
#pragma GCC unroll 4
  for (std::int64_t round = 1; round < L; round *= 2) {
    Vector<W> t[L];
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < L / 2; ++i) {
      t[2 * i] = interleave_low<W>(v[i], v[i + L / 2], lanes);
      t[2 * i + 1] = interleave_high<W>(v[i], v[i + L / 2], lanes);
    }
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < L; ++i) v[i] = t[i];
  }
}

// The L values at p as wide numbers.
template <class W, class In>
Vector<W> load_as(const In* p) {
  if constexpr (std::is_same_v<W, In>) {
    return load(p);
  } else {
    alignas(kVectorBytes) W wide[kLanes<W>];
    for (std::int64_t i = 0; i < kLanes<W>; ++i) wide[i] = W(p[i]);
    return load(wide);
  }
}

// One whole panel whose rows lie `along` apart and are contiguous in k. The last group of rows may
// not fill a vector: it goes first, and its spare lanes fall on what is written after it; the last
// k of a panel goes element by element.
template <std::int64_t width, class W, class In>
void pack_rows(const In* s, std::int64_t along, std::int64_t K, W* dst) {
  constexpr std::int64_t L = kLanes<W>;
  std::int64_t k = 0;
  for (; k + L < K; k += L)
    for (std::int64_t i = (width - 1) / L * L; i >= 0; i -= L) {
      Vector<W> v[L] = {};
#pragma GCC unroll 16
      for (std::int64_t j = 0; j < L; ++j)
        if (i + j < width) v[j] = load_as<W>(s + (i + j) * along + k);
      transpose<W>(v);
#pragma GCC unroll 16
      for (std::int64_t j = 0; j < L; ++j)
        std::memcpy(dst + (k + j) * width + i, &v[j], sizeof v[j]);
    }
  for (; k < K; ++k)
    for (std::int64_t i = 0; i < width; ++i) dst[k * width + i] = W(s[i * along + k]);
}

// The same where the rows of a panel are contiguous.
template <std::int64_t width, class W, class In>
void pack_columns(const In* s, std::int64_t along_k, std::int64_t K, W* dst) {
  for (std::int64_t k = 0; k < K; ++k)
    for (std::int64_t i = 0; i < width; ++i) dst[k * width + i] = W(s[i + k * along_k]);
}

// Copies K × count elements into panels of `width` (zero-filled), [panel][k][width]. One of the
// strides is 1.
template <std::int64_t width, class W, class In>
void pack(const In* src, std::int64_t along, std::int64_t along_k, std::int64_t count,
          std::int64_t K, W* dst) {
  const std::int64_t whole = count / width, rest = count % width;
  for (std::int64_t p = 0; p < whole; ++p)
    if (along == 1)
      pack_columns<width>(src + p * width, along_k, K, dst + p * width * K);
    else
      pack_rows<width>(src + p * width * along, along, K, dst + p * width * K);
  if (rest == 0) return;
  src += whole * width * along;
  dst += whole * width * K;
  std::fill_n(dst, width * K, W(0));
  for (std::int64_t k = 0; k < K; ++k)
    for (std::int64_t i = 0; i < rest; ++i) dst[k * width + i] = W(src[i * along + k * along_k]);
}

// Packing space of one thread.
template <class W>
struct Packed {
  Buffer a{static_cast<std::size_t>(kBlockM * kBlockK<W>) * sizeof(W), Device::kCpu};
  Buffer b{static_cast<std::size_t>((kBlockN + kColumns<W>)*kBlockK<W>) * sizeof(W), Device::kCpu};
};

// out tile = alpha·acc + beta·c, c null for beta 0.
template <class W, class Out>
void write(const Vector<W> (&acc)[kRows][2], W alpha, W beta, const Out* c, std::int64_t c_row,
           Out* out, std::int64_t out_row, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t L = kLanes<W>;
  if (std::is_same_v<W, Out> && rows == kRows && columns == 2 * L) {
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (std::int64_t j = 0; j < 2; ++j) {
        Vector<W> v = alpha * acc[i][j];
        if (c != nullptr) v += beta * load(reinterpret_cast<const W*>(c + i * c_row + j * L));
        std::memcpy(static_cast<void*>(out + i * out_row + j * L), &v, sizeof v);
      }
    return;
  }
  alignas(kVectorBytes) W tile[kRows][2 * L];
  std::memcpy(tile, acc, sizeof tile);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      W v = alpha * tile[i][j];
      if (c != nullptr) v += beta * W(c[i * c_row + j]);
      out[i * out_row + j] = Out(v);
    }
}

// Out is W here: partial sums over blocks of K are kept in out.
template <class In, class W>
void gemm_wide(const Gemm<In, W>& g, Packed<W>& packed) {
  W* const pa = reinterpret_cast<W*>(packed.a.data());
  W* const pb = reinterpret_cast<W*>(packed.b.data());
  for (std::int64_t n = 0; n < g.N; n += kBlockN) {
    const std::int64_t N = std::min(kBlockN, g.N - n);
    for (std::int64_t k = 0; k < g.K; k += kBlockK<W>) {
      const std::int64_t K = std::min(kBlockK<W>, g.K - k);
      pack<kColumns<W>>(g.b + k * g.b_row + n * g.b_column, g.b_column, g.b_row, N, K, pb);
      // The first block of K brings in c, the others add to what is there.
      const bool first = k == 0;
      const W* c = first ? (g.beta != 0 ? g.c : nullptr) : g.out;
      const std::int64_t c_row = first ? g.c_row : g.out_row;
      const W beta = first ? W(g.beta) : W(1);
      for (std::int64_t m = 0; m < g.M; m += kBlockM) {
        const std::int64_t M = std::min(kBlockM, g.M - m);
        pack<kRows>(g.a + m * g.a_row + k * g.a_column, g.a_row, g.a_column, M, K, pa);
        for (std::int64_t j = 0; j < N; j += kColumns<W>)
          for (std::int64_t i = 0; i < M; i += kRows) {
            W* const out = g.out + (m + i) * g.out_row + n + j;
            for (std::int64_t r = 0; r < std::min(kRows, M - i); ++r)
              __builtin_prefetch(out + r * g.out_row, 1);
            Vector<W> acc[kRows][2] = {};
            kernel<W>(K, pa + i * K, pb + j * K, acc);
            write<W, W>(acc, W(g.alpha), beta, c != nullptr ? c + (m + i) * c_row + n + j : nullptr,
                        c_row, out, g.out_row, std::min(kRows, M - i),
                        std::min(kColumns<W>, N - j));
          }
      }
    }
  }
}

template <class In, class Out>
void by_library(const Gemm<In, Out>& g) {
  if constexpr (std::is_same_v<In, float> && std::is_same_v<Out, float>) library_gemm(g);
}

}  // namespace

template <class In, class Out>
void gemm(const Gemm<In, Out>& g) {
  using W = Wide<In>;
  static thread_local Packed<W> packed;
  if constexpr (std::is_same_v<Out, W>) {
    if (g.K == 0)
      for (std::int64_t m = 0; m < g.M; ++m)
        for (std::int64_t n = 0; n < g.N; ++n)
          g.out[m * g.out_row + n] = g.beta != 0 ? W(g.beta) * g.c[m * g.c_row + n] : W(0);
    else if (std::is_same_v<In, float> && library_gemm_is_faster())
      by_library(g);
    else
      gemm_wide<In, W>(g, packed);
  } else {
    // Narrow results are rounded once, from a wide tile that holds the whole sum.
    static thread_local Buffer space(sizeof(W) * kTileM * kTileN, Device::kCpu);
    W* const tile = reinterpret_cast<W*>(space.data());
    for (std::int64_t m = 0; m < g.M; m += kTileM)
      for (std::int64_t n = 0; n < g.N; n += kTileN) {
        const std::int64_t M = std::min(kTileM, g.M - m), N = std::min(kTileN, g.N - n);
        gemm<In, W>({.M = M,
                     .N = N,
                     .K = g.K,
                     .a = g.a + m * g.a_row,
                     .a_row = g.a_row,
                     .a_column = g.a_column,
                     .b = g.b + n * g.b_column,
                     .b_row = g.b_row,
                     .b_column = g.b_column,
                     .out = tile,
                     .out_row = kTileN,
                     .alpha = g.alpha});
        for (std::int64_t i = 0; i < M; ++i) {
          Out* const out = g.out + (m + i) * g.out_row + n;
          const Out* const c = g.beta != 0 ? g.c + (m + i) * g.c_row + n : nullptr;
          for (std::int64_t j = 0; j < N; ++j)
            out[j] = Out(tile[i * kTileN + j] + (c != nullptr ? W(g.beta) * W(c[j]) : W(0)));
        }
      }
  }
}

template void gemm(const Gemm<BFloat16, BFloat16>&);
template void gemm(const Gemm<double, double>&);
template void gemm(const Gemm<float, float>&);
template void gemm(const Gemm<BFloat16, float>&);

}  // namespace glmtune::ops
