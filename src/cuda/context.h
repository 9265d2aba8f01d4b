#pragma once
// What ops need on a CUDA device beside their operands; owned by the application, one per rank.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/device.h"

namespace glmtune {

// Everything cuBLASLt's choice of an algorithm depends on.
struct MatmulKey {
  std::int64_t m, n, k, batch;
  std::int64_t lda, ldb, ldc, ldd;
  std::int64_t stride_a, stride_b, stride_c, stride_d;
  int type_in, type_out, alignment;
  bool trans_a, trans_b, reads_c;
  auto operator<=>(const MatmulKey&) const = default;
};

struct CudaContext {
  explicit CudaContext(int ordinal);
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext();

  int ordinal = 0;
  int multiprocessors = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  // with opt-in
  cudaStream_t stream = nullptr;

  // cuBLASLt: its workspace lies outside the arenas, so that no matmul depends on an op's scratch.
  cublasLtHandle_t blas = nullptr;
  void* blas_workspace = nullptr;
  std::map<MatmulKey, cublasLtMatmulAlgo_t> algorithms;

  // A device copy of a host table (lists of pointers of multi-tensor kernels). Equal bytes give the
  // copy made before, so that a training step uploads nothing after its first (an upload waits for
  // the stream); at most kTables copies are kept, the oldest goes first.
  const void* device_table(const void* bytes, std::size_t size);

 private:
  static constexpr std::size_t kTables = 64;
  struct Table {
    std::string content;
    void* device = nullptr;
  };
  std::vector<Table> tables_;
};

}  // namespace glmtune
