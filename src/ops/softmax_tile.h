#pragma once
// The softmax of one tile of attention scores on the CPU. A tile is stored key by key: element
// (j, q) of [keys, ld] is key j of query (or head) q, so that maxima and sums over the keys run
// down the columns, one vector register of queries at a time.
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/tile.h"

namespace glmtune::ops {

inline constexpr std::int64_t kTile =
    64;  // queries and keys of a tile; one bit per key fits a word

// Which keys of a tile its queries see.
struct TileMask {
  std::uint32_t low[kTile], high[kTile];  // bit j of (low | high << 32): key j
  bool any, all;

  // Queries q0.. and keys k0.. of one document; query q sees the keys up to q whose bit is set in
  // mask + q · mask_stride (bit 0: key 0 of the document). A null mask sets them all.
  void build(const std::uint32_t* mask, std::int64_t mask_stride, std::int64_t q0,
             std::int64_t queries, std::int64_t k0, std::int64_t keys) {
    const std::uint64_t tile = low_bits(keys);
    std::uint64_t together = tile, either = 0;
    for (std::int64_t i = 0; i < queries; ++i) {
      std::uint64_t bits = tile & low_bits(q0 + i - k0 + 1);
      if (mask != nullptr) {
        const std::uint32_t* words = mask + (q0 + i) * mask_stride + k0 / 32;
        bits &= words[0] | (keys > 32 ? static_cast<std::uint64_t>(words[1]) << 32 : 0);
      }
      low[i] = static_cast<std::uint32_t>(bits);
      high[i] = static_cast<std::uint32_t>(bits >> 32);
      together &= bits;
      either |= bits;
    }
    for (std::int64_t i = queries; i < kTile; ++i) low[i] = high[i] = 0;
    any = either != 0;
    all = together == tile;
  }

  // Puts −inf where a query does not see a key.
  template <class W>
  void apply(W* scores, std::int64_t ld, std::int64_t keys, std::int64_t columns) const {
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::uint32_t* words = j < 32 ? low : high;
      const std::uint32_t bit = std::uint32_t{1} << (j & 31);
      W* row = scores + j * ld;
      for (std::int64_t i = 0; i < columns; ++i)
        row[i] = (words[i] & bit) != 0 ? row[i] : -std::numeric_limits<W>::infinity();
    }
  }

 private:
  static std::uint64_t low_bits(std::int64_t n) {
    return n >= 64 ? ~std::uint64_t{0} : n <= 0 ? 0 : (std::uint64_t{1} << n) - 1;
  }
};

// Turns the scores of the next tile into exp(score − running maximum), and carries the running
// maximum and sum of each column on. `rescale` gets the factor for what was summed with the earlier
// maximum; returns whether any factor differs from 1.
template <class W>
bool softmax_update(W* scores, std::int64_t ld, std::int64_t keys, std::int64_t columns, W* maximum,
                    W* sum, W* rescale) {
  constexpr std::int64_t kLanes = Simd<W>::kLanes;
  bool changed = false;
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    VecOf<W> m = vec(maximum + c);
    for (std::int64_t j = 0; j < keys; ++j) {
      const VecOf<W> x = vec(scores + j * ld + c);
      m = x > m ? x : m;
    }
    W top[kLanes];
    vec(top) = m;
    for (std::int64_t i = c; i < c + kLanes; ++i) {
      const W before = maximum[i];
      maximum[i] = top[i - c];
      rescale[i] = before == top[i - c] ? W(1) : std::exp(before - top[i - c]);
      changed |= rescale[i] != W(1);
      sum[i] *= rescale[i];
    }
  }
  for (std::int64_t j = 0; j < keys; ++j) {
    W* __restrict row = scores + j * ld;
    for (std::int64_t i = 0; i < columns; ++i) {
      // Nothing visible so far: the scores are −inf, and so is their maximum.
      const W top = maximum[i] == -std::numeric_limits<W>::infinity() ? W(0) : maximum[i];
      row[i] = std::exp(row[i] - top);
      sum[i] += row[i];
    }
  }
  return changed;
}

// With P = exp(score − lse): `scores` becomes P, `dp` becomes P (dp − delta). Columns of an empty
// set have lse −inf and scores −inf: P is 0 there.
template <class W>
void softmax_backward(W* __restrict scores, W* __restrict dp, std::int64_t ld, std::int64_t keys,
                      std::int64_t columns, const W* __restrict lse, const W* __restrict delta) {
  for (std::int64_t j = 0; j < keys; ++j) {
    W* __restrict s = scores + j * ld;
    W* __restrict d = dp + j * ld;
    for (std::int64_t i = 0; i < columns; ++i) {
      const W top = lse[i] == -std::numeric_limits<W>::infinity() ? W(0) : lse[i];
      s[i] = std::exp(s[i] - top);
      d[i] = s[i] * (d[i] - delta[i]);
    }
  }
}

}  // namespace glmtune::ops
