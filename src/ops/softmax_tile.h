#pragma once
// The softmax of one tile of attention scores on the CPU. A tile is stored key by key: element
// (j, q) of [keys, ld] is key j of query (or head) q, so that maxima and sums over the keys run
// down the columns, one vector register of queries at a time.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/fast_math.h"
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

// e^x for x ≤ 0, or above by a rounding: 2 ulp in float, and 0 below the normal range, where the
// weight is nothing beside the largest, which is 1. fast_exp without what softmax does not need:
// x = n·ln 2 + r, and n + 127 in the low bits of `shifted` is the exponent field of 2^n.
[[gnu::always_inline]] inline float softmax_exp(float x) {
  constexpr float kShift = 0x1.8p23f + 127;
  const float shifted = x * 0x1.715476p+0f + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  const float y = exp_of_remainder(r);
  const float power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(shifted) << 23);
  return x < -87.0f ? 0.0f : y * power;
}
[[gnu::always_inline]] inline double softmax_exp(double x) {
  return std::exp(x);
}

// Turns the scores of the next tile into exp(score − running maximum), and carries the running
// maximum and sum of each column on. `rescale` gets the factor for what was summed with the earlier
// maximum; returns whether any factor differs from 1.
template <class W>
bool softmax_update(W* __restrict scores, std::int64_t ld, std::int64_t keys, std::int64_t columns,
                    W* __restrict maximum, W* __restrict sum, W* __restrict rescale) {
  constexpr std::int64_t kLanes = Simd<W>::kLanes;
  constexpr W kNone = -std::numeric_limits<W>::infinity();
  bool changed = false;
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    VecOf<W> m = vec(maximum + c);
    for (std::int64_t j = 0; j < keys; ++j) {
      const VecOf<W> x = vec(scores + j * ld + c);
      m = x > m ? x : m;
    }
    W top[kLanes];
    vec(top) = m;
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const W before = maximum[c + i];
      maximum[c + i] = top[i];
      rescale[c + i] = before == top[i] ? W(1) : softmax_exp(before - top[i]);
      changed |= rescale[c + i] != W(1);
      // Nothing visible so far: the scores are −inf, and so is their maximum.
      if (top[i] == kNone) top[i] = 0;
      sum[c + i] *= rescale[c + i];
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      W* __restrict row = scores + j * ld + c;
      for (std::int64_t i = 0; i < kLanes; ++i) {
        row[i] = softmax_exp(row[i] - top[i]);
        sum[c + i] += row[i];
      }
    }
  }
  return changed;
}

// With P = exp(score − lse): `scores` becomes P, `dp` becomes P (dp − delta). A column of an empty
// set, whose scores are −inf, needs a finite number as its lse.
template <class W>
void softmax_backward(W* __restrict scores, W* __restrict dp, std::int64_t ld, std::int64_t keys,
                      std::int64_t columns, const W* __restrict lse, const W* __restrict delta) {
  for (std::int64_t j = 0; j < keys; ++j) {
    W* __restrict s = scores + j * ld;
    W* __restrict d = dp + j * ld;
    for (std::int64_t i = 0; i < columns; ++i) {
      s[i] = softmax_exp(s[i] - lse[i]);
      d[i] = s[i] * (d[i] - delta[i]);
    }
  }
}

}  // namespace glmtune::ops
