#pragma once
// The CPU matrix product behind Matmul and the grouped products: blocked and packed, one register
// kernel for float and double; BF16 operands become float while they are packed. Each element of a
// product is summed in an order that depends on K alone: the same bits for every number of threads
// and every partition of the rows and columns.
#include <cstdint>

#include "tensor/dtype.h"

namespace glmtune::ops {

// out[m, n] = alpha · Σ_k a[m, k] b[k, n] + beta · c[m, n], or out +=… with c = out. Element
// strides for both dimensions of a and b (one of each pair is 1), row strides for out and c.
template <class In, class Out>
struct Gemm {
  std::int64_t M = 0, N = 0, K = 0;
  const In* a = nullptr;
  std::int64_t a_row = 0, a_column = 0;
  const In* b = nullptr;
  std::int64_t b_row = 0, b_column = 0;
  Out* out = nullptr;
  std::int64_t out_row = 0;
  const Out* c = nullptr;  // read only if beta ≠ 0
  std::int64_t c_row = 0;
  double alpha = 1, beta = 0;
};

// On the calling thread alone. In/Out: double/double, float/float, BFloat16/BFloat16,
// BFloat16/float.
template <class In, class Out>
void gemm(const Gemm<In, Out>& g);

// Rows [m0, m1) and columns [n0, n1) of g.
template <class In, class Out>
Gemm<In, Out> part(Gemm<In, Out> g, std::int64_t m0, std::int64_t m1, std::int64_t n0,
                   std::int64_t n1) {
  g.M = m1 - m0;
  g.N = n1 - n0;
  g.a += m0 * g.a_row;
  g.b += n0 * g.b_column;
  g.out += m0 * g.out_row + n0;
  if (g.c != nullptr) g.c += m0 * g.c_row + n0;
  return g;
}

}  // namespace glmtune::ops
