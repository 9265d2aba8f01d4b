#pragma once
// One vector register of float or double: what the hand-blocked CPU loops are built from. Other
// loops are left to the compiler.
#include <cstdint>
#if defined(__AVX__) && defined(__FMA__)
#include <immintrin.h>
#endif

namespace glmtune::ops {

template <class W>
struct Simd;

template <>
struct Simd<float> {
  static constexpr std::int64_t kLanes = 8;
  typedef float Vec __attribute__((vector_size(32), aligned(4), may_alias));
};
template <>
struct Simd<double> {
  static constexpr std::int64_t kLanes = 4;
  typedef double Vec __attribute__((vector_size(32), aligned(8), may_alias));
};

template <class W>
using VecOf = typename Simd<W>::Vec;

template <class W>
inline VecOf<W>& vec(W* p) {
  return *reinterpret_cast<VecOf<W>*>(p);
}
template <class W>
inline const VecOf<W>& vec(const W* p) {
  return *reinterpret_cast<const VecOf<W>*>(p);
}

// References, because vectors by value would change the calling convention between -march settings.
[[gnu::always_inline]] inline void broadcast(VecOf<float>& v, float x) {
  v = VecOf<float>{x, x, x, x, x, x, x, x};
}
[[gnu::always_inline]] inline void broadcast(VecOf<double>& v, double x) {
  v = VecOf<double>{x, x, x, x};
}

// acc += a · b in one rounding where the machine has FMA.
[[gnu::always_inline]] inline void multiply_add(VecOf<float>& acc, const VecOf<float>& a,
                                                const VecOf<float>& b) {
#if defined(__AVX__) && defined(__FMA__)
  acc = _mm256_fmadd_ps(a, b, acc);
#else
  acc += a * b;
#endif
}
[[gnu::always_inline]] inline void multiply_add(VecOf<double>& acc, const VecOf<double>& a,
                                                const VecOf<double>& b) {
#if defined(__AVX__) && defined(__FMA__)
  acc = _mm256_fmadd_pd(a, b, acc);
#else
  acc += a * b;
#endif
}

// n rounded up to whole vectors of W.
template <class W>
constexpr std::int64_t pad_to_vector(std::int64_t n) {
  return (n + Simd<W>::kLanes - 1) / Simd<W>::kLanes * Simd<W>::kLanes;
}

}  // namespace glmtune::ops
