#pragma once
// Rotary position embedding, in place (model.md 3.3).
#include <cmath>
#include <cstdint>

#include "ops/op.h"

namespace glmtune::ops {

enum class RopeLayout : std::uint8_t {
  kInterleaved,  // pairs (x[2j], x[2j+1])
  kHalfSplit,    // pairs (x[j], x[j + D/2])
};

// θ^(−2j/D) in the arithmetic and the order of steps of PyTorch's rotary embeddings: at positions
// near 10⁶ one last bit of it is a visible angle.
template <class W>
W rope_frequency(double theta, std::int64_t j, std::int64_t D) {
  return W(1) / std::pow(W(theta), W(2 * j) / W(D));
}

// Rotates each head's D values by the angles φ_j = position·theta^(−2j/D), j < D/2:
//   (a, b) → (a cos φ − b sin φ, b cos φ + a sin φ).
// x [T, H, D] (any strides, innermost 1), positions I32 [T]. Angles, cosines and the rotation in
// fp32 (double for F64: double), one rounding. inverse: by −φ, which is the backward pass.
struct Rope {
  Tensor x, positions;
  double theta;
  RopeLayout layout = RopeLayout::kInterleaved;
  bool inverse = false;
  void check() const;
};
GLMTUNE_DECLARE_OP(Rope);

}  // namespace glmtune::ops
