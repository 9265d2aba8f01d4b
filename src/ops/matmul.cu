// Dense products through cuBLASLt. It is column-major: a row-major matrix is its own transpose
// there, so out = op(a) op(b) is asked for as outᵀ = op(b)ᵀ op(a)ᵀ and nothing is moved.
#include <array>

#include "cuda/blas_check.h"
#include "ops/elementwise.h"
#include "ops/kernel.cuh"
#include "ops/matmul.h"

namespace glmtune::ops {
namespace {

cudaDataType_t blas_type(DType t) {
  return t == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F;
}

// One operand as cuBLASLt sees it.
struct Matrix {
  const void* data;
  std::int64_t rows, columns, ld, batch, stride;
  DType dtype;

  explicit Matrix(const Tensor& t)
      : data(t.data),
        rows(t.size(-1)),
        columns(t.size(-2)),
        ld(std::max(t.stride(-2), t.size(-1))),
        batch(t.rank == 3 ? t.size(0) : 1),
        stride(t.rank == 3 ? t.stride(0) : 0),
        dtype(t.dtype) {}
};

class Layout {
 public:
  Layout(const Matrix& m, std::int64_t batch_count) {
    CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&handle_, blas_type(m.dtype),
                                            static_cast<std::uint64_t>(m.rows),
                                            static_cast<std::uint64_t>(m.columns), m.ld));
    const auto batch = static_cast<std::int32_t>(batch_count);
    CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(handle_, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &batch, sizeof batch));
    CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(
        handle_, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.stride, sizeof m.stride));
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  ~Layout() { cublasLtMatrixLayoutDestroy(handle_); }
  operator cublasLtMatrixLayout_t() const { return handle_; }

 private:
  cublasLtMatrixLayout_t handle_ = nullptr;
};

class Description {
 public:
  // True float32 for F32 operands: no TF32.
  Description(bool trans_first, bool trans_second) {
    CUBLAS_CHECK(cublasLtMatmulDescCreate(&handle_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t first = trans_first ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = trans_second ? CUBLAS_OP_T : CUBLAS_OP_N;
    CUBLAS_CHECK(
        cublasLtMatmulDescSetAttribute(handle_, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(handle_, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                                sizeof second));
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  ~Description() { cublasLtMatmulDescDestroy(handle_); }
  operator cublasLtMatmulDesc_t() const { return handle_; }

 private:
  cublasLtMatmulDesc_t handle_ = nullptr;
};

// The largest power of two up to 256 that divides the address.
int alignment_of(const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p) | 256u;
  return static_cast<int>(address & (~address + 1));
}

// The first choice of cuBLASLt's heuristic, asked once per shape. Not timed: the same shape takes
// the same algorithm, hence the same bits, in every run.
cublasLtMatmulAlgo_t choose(CudaContext& cuda, const MatmulKey& key, cublasLtMatmulDesc_t desc,
                            const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  if (const auto found = cuda.algorithms.find(key); found != cuda.algorithms.end())
    return found->second;
  cublasLtMatmulPreference_t preference = nullptr;
  CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  const std::size_t workspace = kBlasWorkspaceBytes;
  const auto alignment = static_cast<std::uint32_t>(key.alignment);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                       std::size_t size) {
    CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, size));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(attribute, &alignment, sizeof alignment);
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(cuda.blas, desc, a, b, c, d, preference, 1, &result, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0 || result.state != CUBLAS_STATUS_SUCCESS)
    fail_machine(cat("cuBLASLt has no algorithm for a product of ", key.n, " x ", key.m, " x ",
                     key.k, ", batch ", key.batch, ", alignment ", key.alignment, " bytes (",
                     cublasLtGetStatusName(status), ")"));
  return cuda.algorithms.emplace(key, result.algo).first->second;
}

bool same_strides(const Tensor& a, const Tensor& b) {
  for (int d = 0; d < a.rank; ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

}  // namespace

void run_cuda(Context& ctx, const Matmul& op, Tensor) {
  if (op.out.count() == 0) return;
  for (const Tensor& t : {op.a, op.out})
    if (t.dtype != DType::kF32 && t.dtype != DType::kBF16)
      fail(cat("Matmul: ", name_of(t.dtype),
               " on a CUDA device; it works on F32 and BF16 (use --device cpu for F64)"));
  const bool reads_c = op.beta != 0;
  const std::int64_t k = op.trans_a ? op.a.size(-2) : op.a.size(-1);
  Tensor c = reads_c && op.c.defined() ? op.c : op.out;
  // An empty sum, and a c that lies differently from out, go through out itself.
  if (c.data != op.out.data && (k == 0 || !same_strides(c, op.out))) {
    run_cuda(ctx, Copy{.dst = op.out, .src = c}, {});
    c = op.out;
  }
  if (k == 0) {
    if (reads_c)
      run_cuda(ctx, Scale{.x = op.out, .factor = op.beta}, {});
    else
      run_cuda(ctx, Fill{.x = op.out, .value = 0}, {});
    return;
  }
  CudaContext& cuda = cuda_of(ctx, "Matmul");
  const Matrix first(op.b), second(op.a), third(c), result(op.out);
  const int alignment = std::min({alignment_of(first.data), alignment_of(second.data),
                                  alignment_of(third.data), alignment_of(result.data)});
  const MatmulKey key{.m = result.rows,
                      .n = result.columns,
                      .k = k,
                      .batch = result.batch,
                      .lda = first.ld,
                      .ldb = second.ld,
                      .ldc = third.ld,
                      .ldd = result.ld,
                      .stride_a = first.stride,
                      .stride_b = second.stride,
                      .stride_c = third.stride,
                      .stride_d = result.stride,
                      .type_in = static_cast<int>(op.a.dtype),
                      .type_out = static_cast<int>(op.out.dtype),
                      .alignment = alignment,
                      .trans_a = op.trans_b,
                      .trans_b = op.trans_a,
                      .reads_c = reads_c};
  const Description description(op.trans_b, op.trans_a);
  const Layout a(first, result.batch), b(second, result.batch), c_layout(third, result.batch),
      d(result, result.batch);
  const cublasLtMatmulAlgo_t algorithm = choose(cuda, key, description, a, b, c_layout, d);
  const auto alpha = static_cast<float>(op.alpha), beta = static_cast<float>(op.beta);
  CUBLAS_CHECK(cublasLtMatmul(cuda.blas, description, &alpha, first.data, a, second.data, b, &beta,
                              third.data, c_layout, op.out.data, d, &algorithm, cuda.blas_workspace,
                              kBlasWorkspaceBytes, stream_of(ctx)));
}

}  // namespace glmtune::ops
