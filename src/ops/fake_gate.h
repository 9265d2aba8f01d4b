#pragma once
// Routing that knows nothing of the tokens, for measuring speed with balanced experts (recipe keys
// fake_balanced_gate, fake_gate_noise). T tokens, E experts, K of them per token.
#include "ops/op.h"
#include "ops/philox.h"

namespace glmtune::ops {

// noise 0:  expert_ids[t, j] = (t·K + j) mod E, weights = 1/K.
// noise n up to 1:  the K experts with the largest u(t, e) + 0.1·n·g(e), u uniform in [0, 1), g of
// mean 0 and variance 1 (the same for all tokens, so that some experts are favoured);
// weights[t, j] = (1 − n)/K + n·v(t, j)/Σ_j v(t, j), v uniform.
// u, g and v are functions of the seed alone: the same on every device and in every step.
struct FakeGate {
  Tensor expert_ids;  // I32 [T, K]
  Tensor weights;     // wide [T, K]
  std::int64_t experts = 0;
  double noise = 0;
  std::uint64_t seed = 0;
  void check() const;
};
GLMTUNE_DECLARE_OP(FakeGate);

// The choice for one token, in whole numbers so that no device rounds it otherwise.
struct FakeChoice {
  std::int64_t experts, chosen;
  std::int64_t bias_scale;  // of g, 2^-16 of a unit of u
  std::uint64_t seed;

  // What g(e), a sum of four uniforms less its mean, adds to the scores of expert e; `fill` takes
  // that of every expert.
  GLMTUNE_HOST_DEVICE std::int32_t favour(std::int64_t e) const {
    const Philox g = philox(seed, static_cast<std::uint64_t>(e), 0);
    std::int64_t sum = -131072;
    for (int i = 0; i < 4; ++i) sum += g.word[i] >> 16;
    return static_cast<std::int32_t>(bias_scale * sum / 256);
  }
  // 24 bits of u(t, e).
  GLMTUNE_HOST_DEVICE std::int64_t u(std::int64_t t, std::int64_t e) const {
    const Philox p = philox(seed, static_cast<std::uint64_t>(e), static_cast<std::uint64_t>(t) + 1);
    return static_cast<std::int64_t>(p.word[0] >> 8);
  }
  // The best expert after (score, index), larger scores first, then lower indices.
  GLMTUNE_HOST_DEVICE std::int64_t next(std::int64_t t, const std::int32_t* favours,
                                        std::int64_t& last_score, std::int64_t last) const {
    std::int64_t best = -1, best_score = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      const std::int64_t s = u(t, e) + favours[e];
      const bool later = last < 0 || s < last_score || (s == last_score && e > last);
      if (later && (best < 0 || s > best_score)) {
        best = e;
        best_score = s;
      }
    }
    last_score = best_score;
    return best;
  }
  // v(t, j), 1 to 2^24; from counters beyond those of the experts. (The next seed is another
  // layer's.)
  GLMTUNE_HOST_DEVICE std::int64_t v(std::int64_t t, std::int64_t j) const {
    const Philox p = philox(seed, (std::uint64_t{1} << 32) + static_cast<std::uint64_t>(j),
                            static_cast<std::uint64_t>(t) + 1);
    return static_cast<std::int64_t>(p.word[0] >> 8) + 1;
  }
  // Token t's row of expert_ids and weights. favours [E]; not read with noise 0.
  template <class W>
  GLMTUNE_HOST_DEVICE void fill(std::int64_t t, double noise, const std::int32_t* favours,
                                std::int32_t* ids, W* weights) const {
    const std::int64_t K = chosen;
    if (noise == 0) {
      for (std::int64_t j = 0; j < K; ++j) {
        ids[j] = static_cast<std::int32_t>((t * K + j) % experts);
        weights[j] = W(1) / static_cast<W>(K);
      }
      return;
    }
    std::int64_t last_score = 0, last = -1, sum = 0;
    for (std::int64_t j = 0; j < K; ++j) {
      last = next(t, favours, last_score, last);
      ids[j] = static_cast<std::int32_t>(last);
      sum += v(t, j);
    }
    for (std::int64_t j = 0; j < K; ++j)
      weights[j] = static_cast<W>((1 - noise) / static_cast<double>(K) +
                                  noise * static_cast<double>(v(t, j)) / static_cast<double>(sum));
  }
};
FakeChoice fake_choice(const FakeGate& op);

}  // namespace glmtune::ops
