#include "ops/indexer.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "base/cat.h"
#include "ops/expect.h"
#include "ops/rows_of.h"
#include "ops/tile.h"

namespace glmtune::ops {
namespace {

constexpr std::int64_t kQueries = 16;  // queries that share a panel of keys
constexpr int kHeads = 4;              // heads whose products are in registers together

// Keys of a panel, two vectors; its elements lie [D, kPanel].
template <class W>
constexpr std::int64_t kPanel = 2 * Simd<W>::kLanes;

struct Sizes {
  std::int64_t Tq, I, D, S;
  explicit Sizes(const IndexScores& op)
      : Tq(op.q.size(0)), I(op.q.size(1)), D(op.q.size(2)), S(op.k.size(0)) {}
};

template <class W>
struct Layout {
  std::int64_t panels;
  std::size_t keys, queries;  // bytes: all panels; one thread's [kQueries, I, D]
  explicit Layout(const Sizes& s) : panels((s.S + kPanel<W> - 1) / kPanel<W>) {
    TileScratch<W> all(nullptr), own(nullptr);
    all.take(panels * s.D * kPanel<W>);
    own.take(kQueries * s.I * s.D);
    keys = all.used();
    queries = own.used();
  }
};

// sum += Σ_h weights[h] · ReLU(q[h] · panel) over M heads.
template <int M, class W>
[[gnu::always_inline]] inline void add_heads(VecOf<W> (&sum)[2], const W* q, const W* panel,
                                             const W* weights, std::int64_t D) {
  constexpr std::int64_t kLanes = Simd<W>::kLanes;
  VecOf<W> acc[M][2] = {};
  for (std::int64_t d = 0; d < D; ++d) {
    const VecOf<W> k[2] = {vec(panel + d * kPanel<W>), vec(panel + d * kPanel<W> + kLanes)};
    for (int h = 0; h < M; ++h) {
      VecOf<W> x;
      broadcast(x, q[h * D + d]);
      for (int v = 0; v < 2; ++v) multiply_add(acc[h][v], x, k[v]);
    }
  }
  for (int h = 0; h < M; ++h) {
    VecOf<W> w;
    broadcast(w, weights[h]);
    for (int v = 0; v < 2; ++v) {
      const VecOf<W> zero = {};
      const VecOf<W> relu = acc[h][v] < zero ? zero : acc[h][v];  // NaN stays NaN
      multiply_add(sum[v], w, relu);
    }
  }
}

// Scores of one query against one panel. `keys` of them exist.
template <class W>
void score_panel(W* out, std::int64_t keys, const W* q, const W* panel, const W* weights,
                 const Sizes& s, W weight_scale) {
  VecOf<W> sum[2] = {};
  std::int64_t h = 0;
  for (; h + kHeads <= s.I; h += kHeads)
    add_heads<kHeads>(sum, q + h * s.D, panel, weights + h, s.D);
  for (; h < s.I; ++h) add_heads<1>(sum, q + h * s.D, panel, weights + h, s.D);
  W row[kPanel<W>];
  for (int v = 0; v < 2; ++v) vec(row + v * Simd<W>::kLanes) = sum[v] * weight_scale;
  std::copy_n(row, std::min(keys, kPanel<W>), out);
}

template <class T>
void index_scores(const IndexScores& op, std::byte* workspace) {
  using W = Wide<T>;
  const Sizes s(op);
  const Layout<W> layout(s);
  W* panels = reinterpret_cast<W*>(workspace);
#pragma omp parallel if (s.Tq * s.S * s.I * s.D > kParallelWork)
  {
#pragma omp for
    for (std::int64_t p = 0; p < layout.panels; ++p) {
      const std::int64_t k0 = p * kPanel<W>;
      pack_transposed(panels + p * s.D * kPanel<W>, kPanel<W>, op.k.template row<T>(k0),
                      op.k.stride(0), std::min(kPanel<W>, s.S - k0), s.D, static_cast<W>(op.scale));
    }
    W* q = reinterpret_cast<W*>(workspace + layout.keys +
                                layout.queries * static_cast<std::size_t>(omp_get_thread_num()));
#pragma omp for schedule(dynamic)
    for (std::int64_t t0 = 0; t0 < s.Tq; t0 += kQueries) {
      const std::int64_t n = std::min(kQueries, s.Tq - t0);
      for (std::int64_t i = 0; i < n; ++i)
        pack_rows(q + i * s.I * s.D, s.D, op.q.template row<T>(t0 + i), op.q.stride(1), s.I, s.D);
      for (std::int64_t k0 = 0; k0 < op.query_begin + t0 + n; k0 += kPanel<W>)
        for (std::int64_t i = 0; i < n; ++i)
          if (k0 <= op.query_begin + t0 + i)
            score_panel(op.scores.template row<W>(t0 + i) + k0, s.S - k0, q + i * s.I * s.D,
                        panels + k0 * s.D, op.weights.template row<W>(t0 + i), s,
                        static_cast<W>(op.weight_scale));
    }
  }
}

// Unsigned keys in the order of the scores: −0.0 is +0.0, and a NaN is below every number.
std::uint32_t order_key(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x + 0.0f);
  if (x != x) return 0;
  return (u >> 31) != 0 ? ~u : u | 0x80000000u;
}
std::uint64_t order_key(double x) {
  const auto u = std::bit_cast<std::uint64_t>(x + 0.0);
  if (x != x) return 0;
  return (u >> 63) != 0 ? ~u : u | 0x8000000000000000u;
}

// Where the selection ends: everything above `key` is in, and the first `ties` that equal it.
template <class Key>
struct Threshold {
  Key key;
  std::int64_t ties;
};

// The k-th largest of keys[0, n), 1 ≤ k ≤ n. A histogram of the leading bits leaves few candidates.
template <class Key>
Threshold<Key> find_threshold(const Key* keys, std::int64_t n, std::int64_t k, Key* candidates) {
  constexpr int kLeading = 11;
  constexpr int kShift = 8 * sizeof(Key) - kLeading;
  std::array<std::int32_t, 1 << kLeading> histogram{};
  Key largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, keys[i]);
  for (std::int64_t i = 0; i < n; ++i) ++histogram[keys[i] >> kShift];
  Key bin = largest >> kShift;
  while (histogram[bin] < k) k -= histogram[bin--];
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    candidates[kept] = keys[i];
    kept += (keys[i] >> kShift) == bin;
  }
  std::nth_element(candidates, candidates + k - 1, candidates + kept, std::greater<Key>());
  const Key key = candidates[k - 1];
  return {key, k - std::count_if(candidates, candidates + k - 1, [&](Key x) { return x > key; })};
}

// Writes the selection of one query, 32 keys at a time.
struct RowWriter {
  std::uint32_t* mask;
  std::int32_t* indices;
  std::int32_t base, count = 0;

  RowWriter(const TopkSelect& op, std::int64_t t)
      : mask(op.mask.defined() ? op.mask.row<std::uint32_t>(t) : nullptr),
        indices(op.indices.defined() ? op.indices.row<std::int32_t>(t) : nullptr),
        base(static_cast<std::int32_t>(op.index_base)) {}

  // Bit i of `word`: key first + i; `first` is a multiple of 32, ascending from call to call.
  void add(std::int64_t first, std::uint32_t word) {
    if (mask != nullptr) mask[first / 32] = word;
    if (indices == nullptr) {
      count += std::popcount(word);
      return;
    }
    for (; word != 0; word &= word - 1)
      indices[count++] = base + static_cast<std::int32_t>(first) + std::countr_zero(word);
  }
  // `keys`: how many `add` was called for.
  void finish(const TopkSelect& op, std::int64_t t, std::int64_t keys) const {
    if (mask != nullptr) std::fill(mask + (keys + 31) / 32, mask + op.mask.size(1), 0u);
    if (indices != nullptr) std::fill(indices + count, indices + op.indices.size(1), -1);
    if (op.counts.defined()) op.counts.as<std::int32_t>()[t] = count;
  }
};

// The lowest n bits that are set in `word`.
std::uint32_t lowest_bits(std::uint32_t word, std::int64_t n) {
  while (std::popcount(word) > n) word &= ~std::bit_floor(word);
  return word;
}

template <class W>
void select_keys(const TopkSelect& op, std::byte* workspace) {
  using Key = decltype(order_key(W{}));
  const std::int64_t S = op.scores.size(1);
#pragma omp parallel if (op.scores.count() > kParallelElements)
  {
    Key* keys = reinterpret_cast<Key*>(workspace) + 2 * S * omp_get_thread_num();
    Key* candidates = keys + S;
#pragma omp for schedule(dynamic, 16)
    for (std::int64_t t = 0; t < op.scores.size(0); ++t) {
      const std::int64_t visible = op.query_begin + t + 1;
      Threshold<Key> limit{0, visible};  // with all keys 0: takes all of them
      if (visible <= op.k) {
        std::fill_n(keys, visible, Key{0});
      } else if (op.k > 0) {
        const W* scores = op.scores.template row<W>(t);
        for (std::int64_t s = 0; s < visible; ++s) keys[s] = order_key(scores[s]);
        limit = find_threshold(keys, visible, op.k, candidates);
      }
      RowWriter row(op, t);
      const std::int64_t considered = op.k > 0 ? visible : 0;
      for (std::int64_t first = 0; first < considered; first += 32) {
        const std::int64_t n = std::min<std::int64_t>(32, considered - first);
        std::uint32_t above = 0, equal = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          above |= static_cast<std::uint32_t>(keys[first + i] > limit.key) << i;
          equal |= static_cast<std::uint32_t>(keys[first + i] == limit.key) << i;
        }
        equal = lowest_bits(equal, limit.ties);
        limit.ties -= std::popcount(equal);
        row.add(first, above | equal);
      }
      row.finish(op, t, considered);
    }
  }
}

}  // namespace

void IndexScores::check() const {
  const char* name = "index_scores";
  expect_real(name, "q", q, {kAny, kAny, kAny});
  expect(name, "k", k, {kAny, q.size(2)}, q.dtype);
  expect(name, "weights", weights, {q.size(0), q.size(1)}, wide(q.dtype));
  expect(name, "scores", scores, {q.size(0), k.size(0)}, wide(q.dtype));
  if (query_begin < 0 || query_begin + q.size(0) > k.size(0))
    fail(cat(name, ": ", q.size(0), " queries from position ", query_begin, " on, but only ",
             k.size(0), " keys"));
}

std::size_t IndexScores::workspace_bytes(Device device) const {
  if (device != Device::kCpu) return 0;
  return dispatch_real(q.dtype, [&]<class T>(T) {
    const Layout<Wide<T>> layout{Sizes(*this)};
    return layout.keys + layout.queries * static_cast<std::size_t>(omp_get_max_threads());
  });
}

void run_cpu(const IndexScores& op, Tensor workspace) {
  dispatch_real(op.q.dtype, [&]<class T>(T) { index_scores<T>(op, workspace.as<std::byte>()); });
}

void TopkSelect::check() const {
  const char* name = "topk_select";
  expect_shape(name, "scores", scores, {kAny, kAny});
  expect_dtype(name, "scores", scores, {DType::kF32, DType::kF64});
  const std::int64_t Tq = scores.size(0), S = scores.size(1);
  if (k < 0 || query_begin < 0 || query_begin + Tq > S)
    fail(cat(name, ": k = ", k, ", ", Tq, " queries from position ", query_begin, " on, ", S,
             " keys"));
  if (mask.defined()) {
    expect(name, "mask", mask, {Tq, kAny}, DType::kU32);
    if (mask.size(1) * 32 < S)
      fail(cat(name, ": mask is ", mask.shape_string(), ", too narrow for ", S, " keys"));
  }
  if (indices.defined()) {
    expect(name, "indices", indices, {Tq, kAny}, DType::kI32);
    if (indices.size(1) < std::min(k, S))
      fail(cat(name, ": indices is ", indices.shape_string(),
               ", too narrow for min(k, S) = ", std::min(k, S)));
  }
  if (counts.defined()) expect(name, "counts", counts, {Tq}, DType::kI32);
}

// The order keys of one row and the candidates among them, for each thread.
std::size_t TopkSelect::workspace_bytes(Device device) const {
  if (device != Device::kCpu) return 0;
  return 2 * static_cast<std::size_t>(scores.size(1)) * size_of(scores.dtype) *
         static_cast<std::size_t>(omp_get_max_threads());
}

void run_cpu(const TopkSelect& op, Tensor workspace) {
  if (op.scores.dtype == DType::kF64)
    select_keys<double>(op, workspace.as<std::byte>());
  else
    select_keys<float>(op, workspace.as<std::byte>());
}

}  // namespace glmtune::ops
