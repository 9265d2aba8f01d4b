#pragma once
// Attention for any head sizes up to 512, F32 and BF16, without tensor cores: the version every
// other one is compared with on the device, and the one odd sizes run through. Deterministic: every
// sum has a fixed order and there are no atomics.
//
// A "problem" names operands the dense and the gathered form have in common. Query (t, h) is
// [q_a | q_b], key (j, h) is [k_a | k_b], value (j, h) is v; sizes da, db, dv.
#include <cuda_bf16.h>

#include <cstdint>

namespace glmtune::ops::generic {

inline constexpr int kWarp = 32;
inline constexpr int kMaxSize = 512;             // largest da, db, dv
inline constexpr int kSlots = kMaxSize / kWarp;  // values of one row that a lane holds
inline constexpr unsigned kAll = 0xffffffffu;

__device__ inline float load(const float* p) {
  return *p;
}
__device__ inline float load(const __nv_bfloat16* p) {
  return __bfloat162float(*p);
}
__device__ inline void store(float* p, float x) {
  *p = x;
}
__device__ inline void store(__nv_bfloat16* p, float x) {
  *p = __float2bfloat16(x);
}

__device__ inline float warp_sum(float x) {
  for (int o = 16; o > 0; o /= 2) x += __shfl_xor_sync(kAll, x, o);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int o = 16; o > 0; o /= 2) x = fmaxf(x, __shfl_xor_sync(kAll, x, o));
  return x;
}

// A [rows, heads, size] operand; heads == 1 operands have head = 0.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t row = 0, head = 0;
  __device__ T* at(std::int64_t t, std::int64_t h) const { return data + t * row + h * head; }
};

// What both forms need; `T` is the storage type.
template <class T>
struct Operands {
  Rows<const T> q_a, q_b, k_a, k_b, v, out, dout;
  Rows<T> dq_a, dq_b, dk_a, dk_b, dv, write_out;
  float* lse = nullptr;          // [H, T], row stride lse_row
  const float* delta = nullptr;  // [H, T] dense: Δ = dout·out
  std::int64_t lse_row = 0, delta_row = 0;
  int heads = 0, da = 0, db = 0, dv_size = 0;
  float scale = 0;
  bool value_is_key = false;  // dv adds into dk_a (gathered form)
};

// Keys of query t in a document: all rows begin..t, or those whose bit is set.
struct CausalKeys {
  const std::int32_t* bounds = nullptr;  // [count, 2]
  int documents = 0;
  const std::uint32_t* mask = nullptr;
  std::int64_t mask_row = 0;

  struct Range {
    std::int64_t begin, end;  // rows of the document
  };
  __device__ Range group(int d) const { return {bounds[2 * d], bounds[2 * d + 1]}; }
  __device__ std::int64_t slots(Range r, std::int64_t t) const { return t - r.begin + 1; }
  // Row of slot i of query t, −1 where the slot is not selected.
  __device__ std::int64_t key(Range r, std::int64_t t, std::int64_t i) const {
    if (mask != nullptr && ((mask[t * mask_row + i / 32] >> (i % 32)) & 1u) == 0) return -1;
    return r.begin + i;
  }
  __device__ std::int64_t first_query(Range, std::int64_t j) const { return j; }
  __device__ std::int64_t last_query(Range r) const { return r.end; }
  __device__ bool selects(Range r, std::int64_t t, std::int64_t j) const {
    return key(r, t, j - r.begin) >= 0;
  }
};

// Keys of query t in an ascending index list.
struct ListedKeys {
  const std::int32_t* indices = nullptr;
  const std::int32_t* counts = nullptr;
  std::int64_t row = 0, queries = 0, keys = 0;

  struct Range {
    std::int64_t begin, end;  // queries in the forward, keys in the key pass
  };
  __device__ std::int64_t slots(Range, std::int64_t t) const { return counts[t]; }
  __device__ std::int64_t key(Range, std::int64_t t, std::int64_t i) const {
    return indices[t * row + i];
  }
  __device__ std::int64_t first_query(Range, std::int64_t) const { return 0; }
  __device__ std::int64_t last_query(Range) const { return queries; }
  __device__ bool selects(Range, std::int64_t t, std::int64_t j) const {
    std::int64_t low = 0, high = counts[t];
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (indices[t * row + middle] < j)
        low = middle + 1;
      else
        high = middle;
    }
    return low < counts[t] && indices[t * row + low] == j;
  }
};

// x·y over [a | b] rows, one lane alone.
template <class T>
__device__ float dot(const T* x, const T* y, int n) {
  float sum = 0;
  for (int d = 0; d < n; ++d) sum = fmaf(load(x + d), load(y + d), sum);
  return sum;
}

// One warp: out and lse of query (t, h).
template <class T, class Keys>
__device__ void forward_row(const Operands<T>& o, const Keys& keys, typename Keys::Range range,
                            std::int64_t t, int h) {
  const int lane = threadIdx.x % kWarp;
  float acc[kSlots] = {};
  float top = -INFINITY, total = 0;
  const std::int64_t slots = keys.slots(range, t);
  for (std::int64_t base = 0; base < slots; base += kWarp) {
    const std::int64_t j = base + lane < slots ? keys.key(range, t, base + lane) : -1;
    float score = -INFINITY;
    if (j >= 0)
      score = o.scale * (dot(o.q_a.at(t, h), o.k_a.at(j, h), o.da) +
                         dot(o.q_b.at(t, h), o.k_b.at(j, h), o.db));
    const float best = fmaxf(top, warp_max(score));
    if (best == -INFINITY) continue;
    const float shrink = expf(top - best);
    const float p = j >= 0 ? expf(score - best) : 0.0f;
    top = best;
    total = total * shrink + warp_sum(p);
    for (int i = 0; i < kSlots; ++i) acc[i] *= shrink;
    for (int k = 0; k < kWarp; ++k) {
      const float pk = __shfl_sync(kAll, p, k);
      const auto jk = __shfl_sync(kAll, static_cast<int>(j), k);
      if (jk < 0) continue;
      const T* v = o.v.at(jk, h);
#pragma unroll
      for (int i = 0; i < kSlots; ++i)
        if (const int d = i * kWarp + lane; d < o.dv_size) acc[i] = fmaf(pk, load(v + d), acc[i]);
    }
  }
  const float inverse = total > 0 ? 1.0f / total : 0.0f;
  T* out = o.write_out.at(t, h);
#pragma unroll
  for (int i = 0; i < kSlots; ++i)
    if (const int d = i * kWarp + lane; d < o.dv_size) store(out + d, acc[i] * inverse);
  if (lane == 0) o.lse[h * o.lse_row + t] = total > 0 ? top + logf(total) : -INFINITY;
}

// One warp: Δ of query (t, h).
template <class T>
__device__ void delta_row(const Operands<T>& o, float* delta, std::int64_t t, int h) {
  const int lane = threadIdx.x % kWarp;
  const T *out = o.out.at(t, h), *dout = o.dout.at(t, h);
  float sum = 0;
  for (int d = lane; d < o.dv_size; d += kWarp) sum = fmaf(load(out + d), load(dout + d), sum);
  sum = warp_sum(sum);
  if (lane == 0) delta[h * o.delta_row + t] = sum;
}

struct Weights {
  float p, ds;
};
// P and dS of the pair (t, j) of head h, by one lane.
template <class T>
__device__ Weights pair_weights(const Operands<T>& o, std::int64_t t, std::int64_t j, int h) {
  const float score = o.scale * (dot(o.q_a.at(t, h), o.k_a.at(j, h), o.da) +
                                 dot(o.q_b.at(t, h), o.k_b.at(j, h), o.db));
  const float p = expf(score - o.lse[h * o.lse_row + t]);
  const float dp = dot(o.dout.at(t, h), o.v.at(j, h), o.dv_size);
  return {p, o.scale * p * (dp - o.delta[h * o.delta_row + t])};
}

// One warp: dq of query (t, h).
template <class T, class Keys>
__device__ void dq_row(const Operands<T>& o, const Keys& keys, typename Keys::Range range,
                       std::int64_t t, int h) {
  const int lane = threadIdx.x % kWarp;
  float a[kSlots] = {}, b[kSlots] = {};
  const std::int64_t slots = keys.slots(range, t);
  for (std::int64_t base = 0; base < slots; base += kWarp) {
    const std::int64_t j = base + lane < slots ? keys.key(range, t, base + lane) : -1;
    const float ds = j >= 0 ? pair_weights(o, t, j, h).ds : 0.0f;
    for (int k = 0; k < kWarp; ++k) {
      const float dk = __shfl_sync(kAll, ds, k);
      const auto jk = __shfl_sync(kAll, static_cast<int>(j), k);
      if (jk < 0) continue;
      const T *ka = o.k_a.at(jk, h), *kb = o.k_b.at(jk, h);
#pragma unroll
      for (int i = 0; i < kSlots; ++i) {
        const int d = i * kWarp + lane;
        if (d < o.da) a[i] = fmaf(dk, load(ka + d), a[i]);
        if (d < o.db) b[i] = fmaf(dk, load(kb + d), b[i]);
      }
    }
  }
  T *dqa = o.dq_a.at(t, h), *dqb = o.dq_b.at(t, h);
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    const int d = i * kWarp + lane;
    if (d < o.da) store(dqa + d, a[i]);
    if (d < o.db) store(dqb + d, b[i]);
  }
}

inline constexpr int kKeyWarps = 8;
inline constexpr int kList = kKeyWarps * kWarp;

// Shared memory of key_block: the queries that select the key, in order.
struct KeyBlockShared {
  int list[kList];
  int per_warp[kKeyWarps];
  float sum_a[kKeyWarps][kMaxSize];
  float sum_b[kKeyWarps][kMaxSize];
};

// One block of kKeyWarps warps: dk_a, dv (per head) and dk_b (summed over heads) of key j; in the
// gathered form dk_a is summed over heads too and holds dv as well. Warp w works on the heads
// w, w + kKeyWarps, ... so that every sum has one order.
template <class T, class Keys>
__device__ void key_block(const Operands<T>& o, const Keys& keys, typename Keys::Range range,
                          std::int64_t j, KeyBlockShared& shared) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  float a[kSlots] = {}, b[kSlots] = {}, v[kSlots] = {};
  const int rounds = (o.heads + kKeyWarps - 1) / kKeyWarps;
  for (int round = 0; round < rounds; ++round) {
    const int h = round * kKeyWarps + warp;
    const bool has_head = h < o.heads;
    if (!o.value_is_key)
      for (int i = 0; i < kSlots; ++i) a[i] = v[i] = 0;
    const std::int64_t last = keys.last_query(range);
    for (std::int64_t base = keys.first_query(range, j); base < last; base += kList) {
      const std::int64_t t = base + threadIdx.x;
      const bool chosen = t < last && keys.selects(range, t, j);
      const unsigned ballot = __ballot_sync(kAll, chosen);
      if (lane == 0) shared.per_warp[warp] = __popc(ballot);
      __syncthreads();
      int offset = 0, length = 0;
      for (int w = 0; w < kKeyWarps; ++w) {
        if (w < warp) offset += shared.per_warp[w];
        length += shared.per_warp[w];
      }
      if (chosen) shared.list[offset + __popc(ballot & ((1u << lane) - 1u))] = static_cast<int>(t);
      __syncthreads();
      for (int first = 0; has_head && first < length; first += kWarp) {
        const int mine = first + lane < length ? shared.list[first + lane] : -1;
        Weights w = {0.0f, 0.0f};
        if (mine >= 0) w = pair_weights(o, mine, j, h);
        for (int k = 0; k < kWarp; ++k) {
          const int query = __shfl_sync(kAll, mine, k);
          const float p = __shfl_sync(kAll, w.p, k), ds = __shfl_sync(kAll, w.ds, k);
          if (query < 0) continue;
          const T *qa = o.q_a.at(query, h), *qb = o.q_b.at(query, h), *g = o.dout.at(query, h);
#pragma unroll
          for (int i = 0; i < kSlots; ++i) {
            const int d = i * kWarp + lane;
            if (d < o.da) a[i] = fmaf(ds, load(qa + d), a[i]);
            if (d < o.db) b[i] = fmaf(ds, load(qb + d), b[i]);
            if (d < o.dv_size) v[i] = fmaf(p, load(g + d), v[i]);
          }
        }
      }
      __syncthreads();
    }
    if (o.value_is_key || !has_head) continue;
    T *dk = o.dk_a.at(j, h), *dv = o.dv.at(j, h);
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      const int d = i * kWarp + lane;
      if (d < o.da) store(dk + d, a[i]);
      if (d < o.dv_size) store(dv + d, v[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    shared.sum_b[warp][i * kWarp + lane] = b[i];
    shared.sum_a[warp][i * kWarp + lane] = a[i] + v[i];
  }
  __syncthreads();
  for (int d = threadIdx.x; d < kMaxSize; d += kList) {
    float sum_a = 0, sum_b = 0;
    for (int w = 0; w < kKeyWarps; ++w) {
      sum_a += shared.sum_a[w][d];
      sum_b += shared.sum_b[w][d];
    }
    if (d < o.db) store(o.dk_b.at(j, 0) + d, sum_b);
    if (o.value_is_key && d < o.da) store(o.dk_a.at(j, 0) + d, sum_a);
  }
  __syncthreads();
}

}  // namespace glmtune::ops::generic
