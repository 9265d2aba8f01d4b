#include "ops/gemm_library.h"

#include <dnnl.h>

#include <algorithm>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::ops {

bool library_gemm_is_faster() {
  static const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0;
  return has_avx512;
}

void library_gemm(const Gemm<float, float>& g) {
  if (g.M == 0 || g.N == 0) return;
  // oneDNN's beta acts on the output: another c is copied there first.
  if (g.beta != 0 && g.c != g.out)
    for (std::int64_t m = 0; m < g.M; ++m)
      std::copy_n(g.c + m * g.c_row, g.N, g.out + m * g.out_row);
  const bool trans_a = g.a_column != 1, trans_b = g.b_column != 1;
  // A single row or column may have any stride, but the library wants one that fits the size.
  const std::int64_t lda = std::max(trans_a ? g.a_column : g.a_row, trans_a ? g.M : g.K);
  const std::int64_t ldb = std::max(trans_b ? g.b_column : g.b_row, trans_b ? g.K : g.N);
  const std::int64_t ldc = std::max(g.out_row, g.N);
  const dnnl_status_t status = dnnl_sgemm(
      trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', g.M, g.N, g.K, static_cast<float>(g.alpha), g.a,
      std::max<std::int64_t>(1, lda), g.b, std::max<std::int64_t>(1, ldb),
      static_cast<float>(g.beta), g.out, std::max<std::int64_t>(1, ldc));
  if (status != dnnl_success)
    fail(cat("oneDNN refused a product of ", g.M, " x ", g.N, " x ", g.K, ": status ", status));
}

}  // namespace glmtune::ops
