#include "ops/attention.h"

#include <omp.h>

#include "base/cat.h"
#include "ops/attention_sm90.h"
#include "ops/expect.h"
#include "ops/rows_of.h"
#include "ops/softmax_tile.h"

namespace glmtune::ops {
namespace {

// Sizes of an attention op; backward and forward name the same operands.
struct Sizes {
  std::int64_t T, H, D, Dn, Dr, Dv;
  template <class Op>
  explicit Sizes(const Op& op)
      : T(op.q.size(0)),
        H(op.q.size(1)),
        D(op.q.size(2)),
        Dn(op.k_nope.size(2)),
        Dr(op.k_rope.size(1)),
        Dv(op.v.size(2)) {}
};

void check_documents(const char* op, const Documents& documents, std::int64_t T) {
  if (documents.count == 0) return;
  if (documents.host == nullptr) fail(cat(op, ": the documents' host bounds are absent"));
  std::int64_t end = 0;
  for (std::int64_t d = 0; d < documents.count; ++d) {
    const std::int64_t b = documents.host[2 * d], e = documents.host[2 * d + 1];
    if (b < end || e < b || e > T || e - b > documents.max_length)
      fail(cat(op, ": document ", d, " is [", b, ", ", e, "); expected ascending ranges in [0, ", T,
               ") of at most max_length = ", documents.max_length, " rows"));
    end = e;
  }
}

// Operands that forward and backward share.
template <class Op>
void check_inputs(const char* name, const Op& op) {
  expect_real(name, "q", op.q, {kAny, kAny, kAny});
  expect_shape(name, "k_nope", op.k_nope, {kAny, kAny, kAny});
  expect_shape(name, "v", op.v, {kAny, kAny, kAny});
  const DType t = op.q.dtype;
  const std::int64_t T = op.q.size(0), H = op.q.size(1), Dn = op.k_nope.size(2);
  expect(name, "k_nope", op.k_nope, {T, H, Dn}, t);
  expect(name, "k_rope", op.k_rope, {T, op.q.size(2) - Dn}, t);
  expect(name, "v", op.v, {T, H, kAny}, t);
  expect_same(name, "out", op.out, "v", op.v);
  expect(name, "lse", op.lse, {H, T}, wide(t));
  check_documents(name, op.documents, T);
  if (!op.mask.defined()) return;
  expect(name, "mask", op.mask, {T, kAny}, DType::kU32);
  if (op.mask.size(1) * 32 < op.documents.max_length)
    fail(cat(name, ": mask is ", op.mask.shape_string(), ", too narrow for documents of ",
             op.documents.max_length, " keys"));
}

// One head of one document: its rows of the operands, element types erased to T.
template <class T, class Op>
struct Head {
  const Op& op;
  std::int64_t h, begin, length;

  T* at(const Tensor& t, std::int64_t row = 0) const {  // of a [T, H, ...] tensor
    return t.as<T>() + (begin + row) * t.stride(0) + h * t.stride(1);
  }
  T* rope(const Tensor& t, std::int64_t row = 0) const { return t.template row<T>(begin + row); }
  Wide<T>* lse(std::int64_t row) const { return op.lse.template row<Wide<T>>(h) + begin + row; }
  const std::uint32_t* mask() const {
    return op.mask.defined() ? op.mask.template row<std::uint32_t>(begin) : nullptr;
  }
  std::int64_t mask_stride() const { return op.mask.defined() ? op.mask.stride(0) : 0; }
};

// Calls f(head of document, thread) for every head of every document, in parallel.
template <class T, class Op, class F>
void for_each_head(const Op& op, F&& f) {
  const std::int64_t H = op.q.size(1);
  const bool worth_it = op.q.count() * op.documents.max_length > kParallelWork;
#pragma omp parallel for schedule(dynamic) if (worth_it)
  for (std::int64_t i = 0; i < op.documents.count * H; ++i) {
    const std::int32_t* bounds = op.documents.host + 2 * (i / H);
    f(Head<T, Op>{op, i % H, bounds[0], bounds[1] - bounds[0]}, omp_get_thread_num());
  }
}

template <class T, class Op, class W>
void pack_keys_and_values(const Head<T, Op>& head, const Sizes& s, W* k, std::int64_t ldk, W* v,
                          std::int64_t ldv) {
  const Op& op = head.op;
  pack_rows(k, ldk, head.at(op.k_nope), op.k_nope.stride(0), head.length, s.Dn);
  pack_rows(k + s.Dn, ldk, head.rope(op.k_rope), op.k_rope.stride(0), head.length, s.Dr);
  zero_columns(k, ldk, head.length, s.D);
  pack_rows(v, ldv, head.at(op.v), op.v.stride(0), head.length, s.Dv);
  zero_columns(v, ldv, head.length, s.Dv);
}

template <class W>
struct ForwardScratch {
  std::int64_t ldk, ldv;
  W *k, *v;                    // the document's keys [length, D] and values [length, Dv]
  W *qt, *scores, *out;        // scale · queries, transposed [D, kTile]; one tile; [kTile, Dv]
  W *maximum, *sum, *rescale;  // per query of the tile
  ForwardScratch(const Sizes& s, std::int64_t length, TileScratch<W>& m)
      : ldk(pad_to_vector<W>(s.D)),
        ldv(pad_to_vector<W>(s.Dv)),
        k(m.take(length * ldk)),
        v(m.take(length * ldv)),
        qt(m.take(s.D * kTile)),
        scores(m.take(kTile * kTile)),
        out(m.take(kTile * ldv)),
        maximum(m.take(kTile)),
        sum(m.take(kTile)),
        rescale(m.take(kTile)) {}
};

template <class W>
struct BackwardScratch {
  std::int64_t ldk, ldv;
  W *k, *v, *dk, *dv;           // the document's keys and values, and their gradients
  W *q, *dout, *dq;             // scale · queries [kTile, D]; [kTile, Dv]; [kTile, D]
  W *qt, *doutt, *scores, *dp;  // transposed [D, kTile], [Dv, kTile]; two tiles
  W *lse, *delta;               // per query of the tile
  BackwardScratch(const Sizes& s, std::int64_t length, TileScratch<W>& m)
      : ldk(pad_to_vector<W>(s.D)),
        ldv(pad_to_vector<W>(s.Dv)),
        k(m.take(length * ldk)),
        v(m.take(length * ldv)),
        dk(m.take(length * ldk)),
        dv(m.take(length * ldv)),
        q(m.take(kTile * ldk)),
        dout(m.take(kTile * ldv)),
        dq(m.take(kTile * ldk)),
        qt(m.take(s.D * kTile)),
        doutt(m.take(s.Dv * kTile)),
        scores(m.take(kTile * kTile)),
        dp(m.take(kTile * kTile)),
        lse(m.take(kTile)),
        delta(m.take(kTile)) {}
};

template <template <class> class Scratch, class Op>
std::size_t thread_bytes(const Op& op) {
  return dispatch_real(op.q.dtype, [&]<class T>(T) {
    TileScratch<Wide<T>> count(nullptr);
    Scratch<Wide<T>>(Sizes(op), op.documents.max_length, count);
    return count.used();
  });
}

// Products of a tile of `keys` and `queries`. On the diagonal query i sees the keys up to i only:
// there they run in steps of kStep that leave out most of what the mask takes away.
struct TileShape {
  static constexpr std::int64_t kStep = 16;
  std::int64_t keys, queries;
  bool diagonal;

  // c[j, q] = Σ a(j, :) · b[:, q] over `depth`.
  template <class W>
  void scores(W* c, TileFactor<W> a, const W* b, std::int64_t depth) const {
    const std::int64_t step = diagonal ? kStep : kTile;
    for (std::int64_t q = 0; q < queries; q += step)
      tile_product<false>(c + q, kTile, a, b + q, kTile, diagonal ? std::min(keys, q + step) : keys,
                          std::min(step, queries - q), depth);
  }
  // c[q, :] += Σ_j tile[j, q] b[j, :].
  template <class W>
  void sum_over_keys(W* c, const W* tile, const W* b, std::int64_t ld, std::int64_t cols) const {
    const std::int64_t step = diagonal ? kStep : kTile;
    for (std::int64_t q = 0; q < queries; q += step)
      tile_product<true>(c + q * ld, ld, {tile + q, 1, kTile}, b, ld, std::min(step, queries - q),
                         cols, diagonal ? std::min(keys, q + step) : keys);
  }
  // c[j, :] += Σ_q tile[j, q] b[q, :].
  template <class W>
  void sum_over_queries(W* c, const W* tile, const W* b, std::int64_t ld, std::int64_t cols) const {
    const std::int64_t step = diagonal ? kStep : kTile;
    for (std::int64_t j = 0; j < keys; j += step) {
      const std::int64_t first = diagonal ? j : 0;
      tile_product<true>(c + j * ld, ld, {tile + j * kTile + first, kTile, 1}, b + first * ld, ld,
                         std::min(step, keys - j), cols, queries - first);
    }
  }
};

template <class T>
void forward(const Head<T, CausalAttention>& head, const Sizes& s, ForwardScratch<Wide<T>> m) {
  using W = Wide<T>;
  const CausalAttention& op = head.op;
  pack_keys_and_values(head, s, m.k, m.ldk, m.v, m.ldv);
  TileMask visible;
  for (std::int64_t q0 = 0; q0 < head.length; q0 += kTile) {
    const std::int64_t nq = std::min(kTile, head.length - q0), columns = pad_to_vector<W>(nq);
    pack_transposed(m.qt, kTile, head.at(op.q, q0), op.q.stride(0), nq, s.D,
                    static_cast<W>(op.scale));
    std::fill_n(m.out, nq * m.ldv, W(0));
    std::fill_n(m.maximum, kTile, -std::numeric_limits<W>::infinity());
    std::fill_n(m.sum, kTile, W(0));
    for (std::int64_t k0 = 0; k0 <= q0; k0 += kTile) {
      const std::int64_t nk = std::min(kTile, q0 + nq - k0);
      visible.build(head.mask(), head.mask_stride(), q0, nq, k0, nk);
      if (!visible.any) continue;
      const TileShape tile{nk, nq, k0 == q0};
      tile.scores(m.scores, {m.k + k0 * m.ldk, m.ldk, 1}, m.qt, s.D);
      if (!visible.all) visible.apply(m.scores, kTile, nk, columns);
      if (softmax_update(m.scores, kTile, nk, columns, m.maximum, m.sum, m.rescale))
        for (std::int64_t i = 0; i < nq; ++i)
          for (std::int64_t c = 0; c < m.ldv; ++c) m.out[i * m.ldv + c] *= m.rescale[i];
      tile.sum_over_keys(m.out, m.scores, m.v + k0 * m.ldv, m.ldv, s.Dv);
    }
    for (std::int64_t i = 0; i < nq; ++i) {
      const bool empty = m.maximum[i] == -std::numeric_limits<W>::infinity();
      const W factor = empty ? W(0) : W(1) / m.sum[i];
      T* out = head.at(op.out, q0 + i);
      for (std::int64_t c = 0; c < s.Dv; ++c)
        out[c] = static_cast<T>(factor * m.out[i * m.ldv + c]);
      *head.lse(q0 + i) = empty ? m.maximum[i] : m.maximum[i] + std::log(m.sum[i]);
    }
  }
}

// A row of an empty set has lse −inf; its weights are 0 because its scores are −inf.
template <class W>
W finite_lse(W lse) {
  return lse == -std::numeric_limits<W>::infinity() ? W(0) : lse;
}

// The tile products of one head, in tiles of queries (outer) and keys (inner). dk_rope [length, Dr]
// takes this head's share.
template <class T>
void backward(const Head<T, CausalAttentionBackward>& head, const Sizes& s,
              BackwardScratch<Wide<T>> m, Wide<T>* dk_rope) {
  using W = Wide<T>;
  const CausalAttentionBackward& op = head.op;
  pack_keys_and_values(head, s, m.k, m.ldk, m.v, m.ldv);
  std::fill_n(m.dk, head.length * m.ldk, W(0));
  std::fill_n(m.dv, head.length * m.ldv, W(0));
  zero_columns(m.q, m.ldk, kTile, s.D);
  zero_columns(m.dout, m.ldv, kTile, s.Dv);
  const auto scale = static_cast<W>(op.scale);
  TileMask visible;
  for (std::int64_t q0 = 0; q0 < head.length; q0 += kTile) {
    const std::int64_t nq = std::min(kTile, head.length - q0), columns = pad_to_vector<W>(nq);
    pack_transposed(m.qt, kTile, head.at(op.q, q0), op.q.stride(0), nq, s.D, scale);
    pack_transposed(m.doutt, kTile, head.at(op.dout, q0), op.dout.stride(0), nq, s.Dv, W(1));
    pack_rows(m.dout, m.ldv, head.at(op.dout, q0), op.dout.stride(0), nq, s.Dv);
    std::fill_n(m.lse, kTile, W(0));
    std::fill_n(m.delta, kTile, W(0));
    for (std::int64_t i = 0; i < nq; ++i) {
      const T* q = head.at(op.q, q0 + i);
      for (std::int64_t c = 0; c < s.D; ++c) m.q[i * m.ldk + c] = scale * static_cast<W>(q[c]);
      m.delta[i] = dot(m.dout + i * m.ldv, head.at(op.out, q0 + i), s.Dv);
      m.lse[i] = finite_lse(*head.lse(q0 + i));
    }
    std::fill_n(m.dq, nq * m.ldk, W(0));
    for (std::int64_t k0 = 0; k0 <= q0; k0 += kTile) {
      const std::int64_t nk = std::min(kTile, q0 + nq - k0);
      visible.build(head.mask(), head.mask_stride(), q0, nq, k0, nk);
      if (!visible.any) continue;
      const W *k = m.k + k0 * m.ldk, *v = m.v + k0 * m.ldv;
      const TileShape tile{nk, nq, k0 == q0};
      tile.scores(m.scores, {k, m.ldk, 1}, m.qt, s.D);
      tile.scores(m.dp, {v, m.ldv, 1}, m.doutt, s.Dv);
      if (!visible.all) visible.apply(m.scores, kTile, nk, columns);
      softmax_backward(m.scores, m.dp, kTile, nk, columns, m.lse, m.delta);
      tile.sum_over_queries(m.dv + k0 * m.ldv, m.scores, m.dout, m.ldv, s.Dv);
      tile.sum_over_queries(m.dk + k0 * m.ldk, m.dp, m.q, m.ldk, s.D);
      tile.sum_over_keys(m.dq, m.dp, k, m.ldk, s.D);
    }
    for (std::int64_t i = 0; i < nq; ++i) {
      T* dq = head.at(op.dq, q0 + i);
      for (std::int64_t c = 0; c < s.D; ++c) dq[c] = static_cast<T>(scale * m.dq[i * m.ldk + c]);
    }
  }
  for (std::int64_t j = 0; j < head.length; ++j) {
    const W *dk = m.dk + j * m.ldk, *dv = m.dv + j * m.ldv;
    std::transform(dk, dk + s.Dn, head.at(op.dk_nope, j), [](W x) { return static_cast<T>(x); });
    std::copy_n(dk + s.Dn, s.Dr, dk_rope + j * s.Dr);
    std::transform(dv, dv + s.Dv, head.at(op.dv, j), [](W x) { return static_cast<T>(x); });
  }
}

// Every head's share of dk_rope, wide [H, T, Dr]: it lies first in the workspace.
std::size_t rope_share_bytes(const CausalAttentionBackward& op) {
  const Sizes s(op);
  const std::size_t bytes = static_cast<std::size_t>(s.H * s.T * s.Dr) * size_of(wide(op.q.dtype));
  return (bytes + 63) / 64 * 64;
}

}  // namespace

void CausalAttention::check() const {
  check_inputs("causal_attention", *this);
}

void CausalAttentionBackward::check() const {
  const char* name = "causal_attention_backward";
  check_inputs(name, *this);
  expect_same(name, "dout", dout, "out", out);
  expect_same(name, "dq", dq, "q", q);
  expect_same(name, "dk_nope", dk_nope, "k_nope", k_nope);
  expect_same(name, "dk_rope", dk_rope, "k_rope", k_rope);
  expect_same(name, "dv", dv, "v", v);
}

std::size_t CausalAttention::workspace_bytes(Device device) const {
  if (device == Device::kCuda)
    return sm90::sizes_fit(q, k_nope, k_rope, v) ? sm90::forward_workspace(*this) : 0;
  return thread_bytes<ForwardScratch>(*this) * static_cast<std::size_t>(omp_get_max_threads());
}

std::size_t CausalAttentionBackward::workspace_bytes(Device device) const {
  if (device == Device::kCuda)
    return sm90::device_scratch(q, sm90::sizes_fit(q, k_nope, k_rope, v),
                                sm90::backward_workspace(*this));
  return rope_share_bytes(*this) +
         thread_bytes<BackwardScratch>(*this) * static_cast<std::size_t>(omp_get_max_threads());
}

void run_cpu(const CausalAttention& op, Tensor workspace) {
  const Sizes s(op);
  const std::size_t per_thread = thread_bytes<ForwardScratch>(op);
  dispatch_real(op.q.dtype, [&]<class T>(T) {
    for_each_head<T>(op, [&](const Head<T, CausalAttention>& head, int thread) {
      TileScratch<Wide<T>> m(workspace.as<std::byte>() + per_thread * thread);
      forward(head, s, ForwardScratch<Wide<T>>(s, op.documents.max_length, m));
    });
  });
}

void run_cpu(const CausalAttentionBackward& op, Tensor workspace) {
  const Sizes s(op);
  const std::size_t per_thread = thread_bytes<BackwardScratch>(op);
  dispatch_real(op.q.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    W* shares = workspace.as<W>();
    std::byte* scratch = workspace.as<std::byte>() + rope_share_bytes(op);
    for_each_head<T>(op, [&](const Head<T, CausalAttentionBackward>& head, int thread) {
      TileScratch<W> m(scratch + per_thread * thread);
      backward(head, s, BackwardScratch<W>(s, op.documents.max_length, m),
               shares + (head.h * s.T + head.begin) * s.Dr);
    });
    for (std::int64_t d = 0; d < op.documents.count; ++d) {
#pragma omp parallel for if (s.H * s.T * s.Dr > kParallelElements)
      for (std::int64_t t = op.documents.host[2 * d]; t < op.documents.host[2 * d + 1]; ++t) {
        T* out = op.dk_rope.template row<T>(t);
        for (std::int64_t c = 0; c < s.Dr; ++c) {
          W sum = 0;
          for (std::int64_t h = 0; h < s.H; ++h) sum += shares[(h * s.T + t) * s.Dr + c];
          out[c] = static_cast<T>(sum);
        }
      }
    }
  });
}

}  // namespace glmtune::ops
