// The absorbed form: every head of a query reads the same gathered rows, so the heads of one query
// are the columns of a tile.
#include <omp.h>

#include "base/cat.h"
#include "ops/attention.h"
#include "ops/expect.h"
#include "ops/softmax_tile.h"
#include "ops/sparse_mla_sm90.h"

namespace glmtune::ops {
namespace {

constexpr std::int64_t kQueryBlock = 32;  // queries whose dS and P the backward keeps at a time
constexpr std::int64_t kKeyRange = 64;    // key rows that one thread of its second half sums up

struct Sizes {
  std::int64_t T, H, R, Dr, S, K;
  template <class Op>
  explicit Sizes(const Op& op)
      : T(op.q_latent.size(0)),
        H(op.q_latent.size(1)),
        R(op.q_latent.size(2)),
        Dr(op.q_rope.size(2)),
        S(op.latent.size(0)),
        K(op.indices.size(1)) {}
  std::int64_t E() const { return R + Dr; }
};

template <class Op>
void check_inputs(const char* name, const Op& op) {
  expect_real(name, "q_latent", op.q_latent, {kAny, kAny, kAny});
  const DType t = op.q_latent.dtype;
  const std::int64_t T = op.q_latent.size(0), H = op.q_latent.size(1), R = op.q_latent.size(2);
  expect(name, "q_rope", op.q_rope, {T, H, kAny}, t);
  expect(name, "latent", op.latent, {kAny, R}, t);
  expect(name, "k_rope", op.k_rope, {op.latent.size(0), op.q_rope.size(2)}, t);
  expect(name, "indices", op.indices, {T, kAny}, DType::kI32);
  expect(name, "counts", op.counts, {T}, DType::kI32);
  expect_same(name, "out_latent", op.out_latent, "q_latent", op.q_latent);
  expect(name, "lse", op.lse, {H, T}, wide(t));
}

// The selected keys of query t.
struct Selection {
  const std::int32_t* rows;
  std::int64_t count;
};
template <class Op>
Selection selection(const Op& op, std::int64_t t) {
  return {op.indices.template row<std::int32_t>(t), op.counts.template as<std::int32_t>()[t]};
}

// Values, so not part of check(): host memory only.
template <class Op>
void check_selection(const char* name, const Op& op) {
  const Sizes s(op);
  for (std::int64_t t = 0; t < s.T; ++t) {
    const auto [rows, count] = selection(op, t);
    bool ok = count >= 0 && count <= s.K;
    for (std::int64_t i = 0; ok && i < count; ++i)
      ok = rows[i] >= (i == 0 ? 0 : rows[i - 1] + 1) && rows[i] < s.S;
    if (!ok)
      fail(cat(name, ": the ", count, " indices of query ", t, " are not ascending rows of [0, ",
               s.S, "), at most ", s.K));
  }
}

template <class T, class Op, class W>
void gather(const Op& op, const Sizes& s, const std::int32_t* rows, std::int64_t count, W* kv,
            std::int64_t ld) {
  for (std::int64_t i = 0; i < count; ++i) {
    pack_rows(kv + i * ld, ld, op.latent.template row<T>(rows[i]), 0, 1, s.R);
    pack_rows(kv + i * ld + s.R, ld, op.k_rope.template row<T>(rows[i]), 0, 1, s.Dr);
  }
  zero_columns(kv, ld, count, s.E());
}

// The queries of token t times scale, transposed: [R + Dr, ldh].
template <class T, class Op, class W>
void pack_queries(const Op& op, const Sizes& s, std::int64_t t, W* qt, std::int64_t ldh) {
  const auto scale = static_cast<W>(op.scale);
  pack_transposed(qt, ldh, op.q_latent.template row<T>(t), op.q_latent.stride(1), s.H, s.R, scale);
  pack_transposed(qt + s.R * ldh, ldh, op.q_rope.template row<T>(t), op.q_rope.stride(1), s.H, s.Dr,
                  scale);
}

template <class W>
struct ForwardScratch {
  std::int64_t ldh, lde, ldr;
  W *qt, *kv, *scores, *out;   // [E, H], [kTile, E], [kTile, H], [H, R]
  W *maximum, *sum, *rescale;  // [H]
  ForwardScratch(const Sizes& s, TileScratch<W>& m)
      : ldh(pad_to_vector<W>(s.H)),
        lde(pad_to_vector<W>(s.E())),
        ldr(pad_to_vector<W>(s.R)),
        qt(m.take(s.E() * ldh)),
        kv(m.take(kTile * lde)),
        scores(m.take(kTile * ldh)),
        out(m.take(s.H * ldr)),
        maximum(m.take(ldh)),
        sum(m.take(ldh)),
        rescale(m.take(ldh)) {}
};

template <class T>
void forward(const SparseMla& op, const Sizes& s, std::int64_t t, ForwardScratch<Wide<T>> m) {
  using W = Wide<T>;
  constexpr W kNone = -std::numeric_limits<W>::infinity();
  const auto [rows, count] = selection(op, t);
  pack_queries<T>(op, s, t, m.qt, m.ldh);
  std::fill_n(m.out, s.H * m.ldr, W(0));
  std::fill_n(m.maximum, m.ldh, kNone);
  std::fill_n(m.sum, m.ldh, W(0));
  for (std::int64_t k0 = 0; k0 < count; k0 += kTile) {
    const std::int64_t nk = std::min(kTile, count - k0);
    gather<T>(op, s, rows + k0, nk, m.kv, m.lde);
    tile_product<false>(m.scores, m.ldh, {m.kv, m.lde, 1}, m.qt, m.ldh, nk, s.H, s.E());
    if (softmax_update(m.scores, m.ldh, nk, m.ldh, m.maximum, m.sum, m.rescale))
      for (std::int64_t h = 0; h < s.H; ++h)
        for (std::int64_t c = 0; c < m.ldr; ++c) m.out[h * m.ldr + c] *= m.rescale[h];
    tile_product<true>(m.out, m.ldr, {m.scores, 1, m.ldh}, m.kv, m.lde, s.H, s.R, nk);
  }
  for (std::int64_t h = 0; h < s.H; ++h) {
    const W factor = count == 0 ? W(0) : W(1) / m.sum[h];
    T* out = op.out_latent.template row<T>(t) + h * op.out_latent.stride(1);
    for (std::int64_t c = 0; c < s.R; ++c) out[c] = static_cast<T>(factor * m.out[h * m.ldr + c]);
    op.lse.template row<W>(h)[t] = count == 0 ? kNone : m.maximum[h] + std::log(m.sum[h]);
  }
}

// What the second half of the backward needs of each query of a block.
template <class W>
struct QueryRecord {
  std::int64_t ldh, lde, ldr;
  W *q, *dout;  // scale · queries [H, E]; [H, R]
  W *p, *ds;    // [K, H]: P and dS / scale
  QueryRecord(const Sizes& s, TileScratch<W>& m)
      : ldh(pad_to_vector<W>(s.H)),
        lde(pad_to_vector<W>(s.E())),
        ldr(pad_to_vector<W>(s.R)),
        q(m.take(s.H * lde)),
        dout(m.take(s.H * ldr)),
        p(m.take(s.K * ldh)),
        ds(m.take(s.K * ldh)) {}
};

template <class W>
struct BackwardScratch {
  W *qt, *doutt, *kv, *dq, *dkv;  // [E, H], [R, H], [kTile, E], [H, E], [kTile, E]
  W *lse, *delta;                 // [H]
  BackwardScratch(const Sizes& s, TileScratch<W>& m)
      : qt(m.take(s.E() * pad_to_vector<W>(s.H))),
        doutt(m.take(s.R * pad_to_vector<W>(s.H))),
        kv(m.take(kTile * pad_to_vector<W>(s.E()))),
        dq(m.take(s.H * pad_to_vector<W>(s.E()))),
        dkv(m.take(kTile * pad_to_vector<W>(s.E()))),
        lse(m.take(pad_to_vector<W>(s.H))),
        delta(m.take(pad_to_vector<W>(s.H))) {}
};

// dq of one query, and its record.
template <class T>
void backward_query(const SparseMlaBackward& op, const Sizes& s, std::int64_t t,
                    QueryRecord<Wide<T>> r, BackwardScratch<Wide<T>> m) {
  using W = Wide<T>;
  const auto scale = static_cast<W>(op.scale);
  const auto [rows, count] = selection(op, t);
  const T* dout = op.dout_latent.template row<T>(t);
  pack_queries<T>(op, s, t, m.qt, r.ldh);
  pack_transposed(m.doutt, r.ldh, dout, op.dout_latent.stride(1), s.H, s.R, W(1));
  pack_rows(r.dout, r.ldr, dout, op.dout_latent.stride(1), s.H, s.R);
  zero_columns(r.dout, r.ldr, s.H, s.R);
  std::fill_n(m.lse, r.ldh, W(0));
  std::fill_n(m.delta, r.ldh, W(0));
  for (std::int64_t h = 0; h < s.H; ++h) {
    for (std::int64_t c = 0; c < r.lde; ++c)
      r.q[h * r.lde + c] = c < s.E() ? m.qt[c * r.ldh + h] : W(0);
    const T* out = op.out_latent.template row<T>(t) + h * op.out_latent.stride(1);
    m.delta[h] = dot(r.dout + h * r.ldr, out, s.R);
    m.lse[h] = op.lse.template row<W>(h)[t];
  }
  std::fill_n(m.dq, s.H * r.lde, W(0));
  for (std::int64_t k0 = 0; k0 < count; k0 += kTile) {
    const std::int64_t nk = std::min(kTile, count - k0);
    W *p = r.p + k0 * r.ldh, *ds = r.ds + k0 * r.ldh;
    gather<T>(op, s, rows + k0, nk, m.kv, r.lde);
    tile_product<false>(p, r.ldh, {m.kv, r.lde, 1}, m.qt, r.ldh, nk, s.H, s.E());
    tile_product<false>(ds, r.ldh, {m.kv, r.lde, 1}, m.doutt, r.ldh, nk, s.H, s.R);
    softmax_backward(p, ds, r.ldh, nk, r.ldh, m.lse, m.delta);
    tile_product<true>(m.dq, r.lde, {ds, 1, r.ldh}, m.kv, r.lde, s.H, s.E(), nk);
  }
  for (std::int64_t h = 0; h < s.H; ++h) {
    const W* dq = m.dq + h * r.lde;
    T* latent = op.dq_latent.template row<T>(t) + h * op.dq_latent.stride(1);
    T* rope = op.dq_rope.template row<T>(t) + h * op.dq_rope.stride(1);
    for (std::int64_t c = 0; c < s.R; ++c) latent[c] = static_cast<T>(scale * dq[c]);
    for (std::int64_t c = 0; c < s.Dr; ++c) rope[c] = static_cast<T>(scale * dq[s.R + c]);
  }
}

// Adds what one query gives the key rows [begin, end) to dkv [S, E].
template <class W>
void add_key_gradients(const Selection& selected, const Sizes& s, std::int64_t begin,
                       std::int64_t end, const QueryRecord<W>& r, W* tile, W* dkv) {
  const std::int32_t* last = selected.rows + selected.count;
  const std::int32_t* from = std::lower_bound(selected.rows, last, begin);
  const std::int32_t* to = std::lower_bound(from, last, end);
  const std::int64_t n = to - from, at = (from - selected.rows) * r.ldh;
  if (n == 0) return;
  tile_product<false>(tile, r.lde, {r.ds + at, r.ldh, 1}, r.q, r.lde, n, s.E(), s.H);
  tile_product<true>(tile, r.lde, {r.p + at, r.ldh, 1}, r.dout, r.ldr, n, s.R, s.H);
  for (std::int64_t i = 0; i < n; ++i) {
    W* sum = dkv + from[i] * r.lde;
    for (std::int64_t c = 0; c < r.lde; ++c) sum[c] += tile[i * r.lde + c];
  }
}

template <template <class> class Block>
std::size_t bytes_of(const Sizes& s, DType dtype) {
  return dispatch_real(dtype, [&]<class T>(T) {
    TileScratch<Wide<T>> count(nullptr);
    Block<Wide<T>>(s, count);
    return count.used();
  });
}

// The sums of the key gradients, wide [S, E]: they lie first in the workspace.
std::size_t key_gradient_bytes(const Sizes& s, DType dtype) {
  return dispatch_real(dtype, [&]<class T>(T) {
    TileScratch<Wide<T>> count(nullptr);
    count.take(s.S * pad_to_vector<Wide<T>>(s.E()));
    return count.used();
  });
}

bool worth_threads(const Sizes& s) {
  return s.T * s.H * s.E() * s.K > kParallelWork;
}

std::size_t threads() {
  return static_cast<std::size_t>(omp_get_max_threads());
}

}  // namespace

void SparseMla::check() const {
  check_inputs("sparse_mla", *this);
}

void SparseMlaBackward::check() const {
  const char* name = "sparse_mla_backward";
  check_inputs(name, *this);
  expect_same(name, "dout_latent", dout_latent, "out_latent", out_latent);
  expect_same(name, "dq_latent", dq_latent, "q_latent", q_latent);
  expect_same(name, "dq_rope", dq_rope, "q_rope", q_rope);
  expect_same(name, "dlatent", dlatent, "latent", latent);
  expect_same(name, "dk_rope", dk_rope, "k_rope", k_rope);
}

std::size_t SparseMla::workspace_bytes(Device device) const {
  if (device != Device::kCpu) return 0;
  return threads() * bytes_of<ForwardScratch>(Sizes(*this), q_latent.dtype);
}

std::size_t SparseMlaBackward::workspace_bytes(Device device) const {
  if (device == Device::kCuda)
    return sm90::device_scratch(q_latent, sm90::sparse_sizes_fit(q_latent, k_rope, indices),
                                sm90::sparse_scratch(*this).bytes);
  const Sizes s(*this);
  const DType t = q_latent.dtype;
  return key_gradient_bytes(s, t) + kQueryBlock * bytes_of<QueryRecord>(s, t) +
         threads() * bytes_of<BackwardScratch>(s, t);
}

void run_cpu(const SparseMla& op, Tensor workspace) {
  check_selection("sparse_mla", op);
  const Sizes s(op);
  const std::size_t per_thread = bytes_of<ForwardScratch>(s, op.q_latent.dtype);
  dispatch_real(op.q_latent.dtype, [&]<class T>(T) {
#pragma omp parallel for schedule(dynamic, 4) if (worth_threads(s))
    for (std::int64_t t = 0; t < s.T; ++t) {
      TileScratch<Wide<T>> m(workspace.as<std::byte>() +
                             per_thread * static_cast<std::size_t>(omp_get_thread_num()));
      forward<T>(op, s, t, ForwardScratch<Wide<T>>(s, m));
    }
  });
}

// Key gradients sum over queries. To sum without races and in one order, blocks of queries are
// worked through one after the other: first each query's P and dS (in parallel over the queries),
// then each range of key rows takes the block's contributions in the order of the queries (in
// parallel over the ranges).
void run_cpu(const SparseMlaBackward& op, Tensor workspace) {
  check_selection("sparse_mla_backward", op);
  const Sizes s(op);
  const DType dtype = op.q_latent.dtype;
  const std::size_t per_record = bytes_of<QueryRecord>(s, dtype);
  const std::size_t per_thread = bytes_of<BackwardScratch>(s, dtype);
  std::byte* records = workspace.as<std::byte>() + key_gradient_bytes(s, dtype);
  std::byte* scratch = records + kQueryBlock * per_record;
  const std::int64_t ranges = (s.S + kKeyRange - 1) / kKeyRange;
  dispatch_real(dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const auto record = [&](std::int64_t i) {
      TileScratch<W> m(records + per_record * static_cast<std::size_t>(i));
      return QueryRecord<W>(s, m);
    };
    const auto mine = [&] {
      TileScratch<W> m(scratch + per_thread * static_cast<std::size_t>(omp_get_thread_num()));
      return BackwardScratch<W>(s, m);
    };
    W* dkv = workspace.as<W>();
    const std::int64_t ld = pad_to_vector<W>(s.E());
    std::fill_n(dkv, s.S * ld, W(0));
    for (std::int64_t t0 = 0; t0 < s.T; t0 += kQueryBlock) {
      const std::int64_t n = std::min(kQueryBlock, s.T - t0);
#pragma omp parallel if (worth_threads(s))
      {
#pragma omp for schedule(dynamic)
        for (std::int64_t i = 0; i < n; ++i) backward_query<T>(op, s, t0 + i, record(i), mine());
#pragma omp for schedule(dynamic)
        for (std::int64_t k = 0; k < ranges; ++k)
          for (std::int64_t i = 0; i < n; ++i)
            add_key_gradients<W>(selection(op, t0 + i), s, k * kKeyRange, (k + 1) * kKeyRange,
                                 record(i), mine().dkv, dkv);
      }
    }
#pragma omp parallel for if (worth_threads(s))
    for (std::int64_t j = 0; j < s.S; ++j) {
      T *latent = op.dlatent.template row<T>(j), *rope = op.dk_rope.template row<T>(j);
      for (std::int64_t c = 0; c < s.R; ++c) latent[c] = static_cast<T>(dkv[j * ld + c]);
      for (std::int64_t c = 0; c < s.Dr; ++c) rope[c] = static_cast<T>(dkv[j * ld + s.R + c]);
    }
  });
}

}  // namespace glmtune::ops
