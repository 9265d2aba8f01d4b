#include "ops/matmul.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "base/cat.h"
#include "ops/expect.h"
#include "ops/gemm.h"

namespace glmtune::ops {
namespace {

using enum DType;

// Pieces of products for the threads to take. Their number and shape do not change the results.
constexpr std::int64_t kPiecesPerThread = 4;
constexpr std::int64_t kMinPiece =
    128;  // rows or columns; smaller ones pack more than they compute

// Below this many multiplications a parallel region costs more than it gives.
constexpr std::int64_t kParallelProducts = 1 << 18;

// The threads worth using.
std::int64_t threads_for(std::int64_t products) {
  return products < kParallelProducts || omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
}

struct Grid {
  std::int64_t rows = 1, columns = 1;
};

// Cuts [M, N] into at least `wanted` pieces, if they do not become too small.
Grid grid_for(std::int64_t M, std::int64_t N, std::int64_t wanted) {
  Grid g;
  while (g.rows * g.columns < wanted) {
    const std::int64_t m = M / (2 * g.rows), n = N / (2 * g.columns);
    if (std::max(m, n) < kMinPiece) break;
    (m >= n ? g.rows : g.columns) *= 2;
  }
  return g;
}

// Runs piece i of `pieces` equal ones of g.
template <class In, class Out>
void run_piece(const Gemm<In, Out>& g, const Grid& grid, std::int64_t i) {
  const std::int64_t r = i / grid.columns, c = i % grid.columns;
  gemm(part(g, r * g.M / grid.rows, (r + 1) * g.M / grid.rows, c * g.N / grid.columns,
            (c + 1) * g.N / grid.columns));
}

// Calls f(In{}, Out{}) for the storage types of the operands and the result.
template <class F>
void dispatch_product(DType in, DType out, F&& f) {
  if (in == kF64)
    f(double{}, double{});
  else if (in == kF32)
    f(float{}, float{});
  else if (out == kF32)
    f(BFloat16{}, float{});
  else
    f(BFloat16{}, BFloat16{});
}

void expect_product_types(const char* op, const Tensor& out, const Tensor& a, const Tensor& b,
                          const char* out_name, const char* a_name, const char* b_name) {
  expect_dtype(op, a_name, a, {kF64, kF32, kBF16});
  expect_dtype(op, b_name, b, {a.dtype});
  if (a.dtype == kBF16)
    expect_dtype(op, out_name, out, {kBF16, kF32});
  else
    expect_dtype(op, out_name, out, {a.dtype});
}

// Row e of the experts: rows [begin, end) of the sorted rows, checked against their number.
struct ExpertRows {
  std::int64_t begin, end;
};
std::vector<ExpertRows> expert_rows(const char* op, const Tensor& offsets, std::int64_t rows) {
  const auto* o = offsets.as<std::int32_t>();
  std::vector<ExpertRows> experts(static_cast<std::size_t>(offsets.size(0) - 1));
  for (std::size_t e = 0; e < experts.size(); ++e) {
    experts[e] = {o[e], o[e + 1]};
    if (o[e] < 0 || o[e + 1] < o[e] || o[e + 1] > rows)
      fail(cat(op, ": offsets[", e, ":", e + 2, "] are ", o[e], ", ", o[e + 1],
               ", expected ascending numbers of at most ", rows, " rows"));
  }
  return experts;
}

struct Piece {
  std::size_t expert;
  std::int64_t index;
};

}  // namespace

void Matmul::check() const {
  expect_product_types("Matmul", out, a, b, "out", "a", "b");
  if (out.rank != 2 && out.rank != 3)
    fail(cat("Matmul: out is ", out.shape_string(), ", expected [M, N] or [B, M, N]"));
  const std::int64_t M = out.size(-2), N = out.size(-1);
  if (a.rank != out.rank)
    fail(cat("Matmul: a is ", a.shape_string(), ", expected the rank of out, ", out.rank));
  const std::int64_t K = a.size(trans_a ? -2 : -1);
  if (out.rank == 2) {
    expect_shape("Matmul", "out", out, {M, N});
    expect_shape("Matmul", trans_a ? "a (transposed)" : "a", a, {trans_a ? K : M, trans_a ? M : K});
    expect_shape("Matmul", trans_b ? "b (transposed)" : "b", b, {trans_b ? N : K, trans_b ? K : N});
  } else {
    const std::int64_t B = out.size(0);
    expect_shape("Matmul", "out", out, {B, M, N});
    expect_shape("Matmul", trans_a ? "a (transposed)" : "a", a,
                 {B, trans_a ? K : M, trans_a ? M : K});
    expect_shape("Matmul", trans_b ? "b (transposed)" : "b", b,
                 {B, trans_b ? N : K, trans_b ? K : N});
  }
  if (c.defined()) expect_same("Matmul", "c", c, "out", out);
}

std::size_t Matmul::workspace_bytes(Device) const {
  return 0;
}

void run_cpu(const Matmul& op, Tensor) {
  dispatch_product(op.a.dtype, op.out.dtype, [&]<class In, class Out>(In, Out) {
    const bool batched = op.out.rank == 3;
    const Tensor& c = op.c.defined() ? op.c : op.out;
    const auto product = [&](std::int64_t batch) {
      const auto at = [&](const Tensor& t) { return batched ? batch * t.stride(0) : 0; };
      const std::int64_t lda = op.a.stride(-2), ldb = op.b.stride(-2);
      return Gemm<In, Out>{.M = op.out.size(-2),
                           .N = op.out.size(-1),
                           .K = op.a.size(op.trans_a ? -2 : -1),
                           .a = op.a.as<In>() + at(op.a),
                           .a_row = op.trans_a ? 1 : lda,
                           .a_column = op.trans_a ? lda : 1,
                           .b = op.b.as<In>() + at(op.b),
                           .b_row = op.trans_b ? 1 : ldb,
                           .b_column = op.trans_b ? ldb : 1,
                           .out = op.out.as<Out>() + at(op.out),
                           .out_row = op.out.stride(-2),
                           .c = c.as<Out>() + at(c),
                           .c_row = c.stride(-2),
                           .alpha = op.alpha,
                           .beta = op.beta};
    };
    const std::int64_t batches = batched ? op.out.size(0) : 1;
    if (op.out.count() == 0) return;
    const std::int64_t threads = threads_for(op.out.count() * op.a.size(op.trans_a ? -2 : -1));
    const std::int64_t wanted = threads > 1 ? threads * kPiecesPerThread : 1;
    const Grid grid = grid_for(op.out.size(-2), op.out.size(-1), (wanted + batches - 1) / batches);
    const std::int64_t pieces = grid.rows * grid.columns;
#pragma omp parallel for schedule(dynamic) if (threads > 1 && batches * pieces > 1)
    for (std::int64_t i = 0; i < batches * pieces; ++i)
      run_piece(product(i / pieces), grid, i % pieces);
  });
}

void GroupedMatmul::check() const {
  expect_product_types("GroupedMatmul", out, a, b, "out", "a", "b");
  expect_shape("GroupedMatmul", "b", b, {kAny, kAny, kAny});
  const std::int64_t E = b.size(0), N = b.size(trans_b ? 1 : 2), K = b.size(trans_b ? 2 : 1);
  expect_shape("GroupedMatmul", "out", out, {kAny, N});
  expect_shape("GroupedMatmul", "a", a, {out.size(0), K});
  expect("GroupedMatmul", "offsets", offsets, {E + 1}, kI32);
}

std::size_t GroupedMatmul::workspace_bytes(Device device) const {
  return device == Device::kCuda ? sizeof(std::int32_t) : 0;  // a counter of tiles
}

void run_cpu(const GroupedMatmul& op, Tensor) {
  const std::vector<ExpertRows> experts = expert_rows("GroupedMatmul", op.offsets, op.out.size(0));
  const std::int64_t N = op.out.size(1), K = op.a.size(1);
  const std::int64_t threads = threads_for(op.out.count() * K);
  // Pieces of rows, so that a crowded expert is shared by the threads.
  const std::int64_t rows_per_piece =
      std::max(kMinPiece, op.out.size(0) / (threads * kPiecesPerThread));
  std::vector<Piece> pieces;
  for (std::size_t e = 0; e < experts.size(); ++e)
    for (std::int64_t r = experts[e].begin; r < experts[e].end; r += rows_per_piece)
      pieces.push_back({e, r});
  dispatch_product(op.a.dtype, op.out.dtype, [&]<class In, class Out>(In, Out) {
#pragma omp parallel for schedule(dynamic) if (threads > 1 && pieces.size() > 1)
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto [e, r] = pieces[i];
      const std::int64_t ldb = op.b.stride(1);
      gemm(Gemm<In, Out>{.M = std::min(rows_per_piece, experts[e].end - r),
                         .N = N,
                         .K = K,
                         .a = op.a.row<In>(r),
                         .a_row = op.a.stride(0),
                         .a_column = 1,
                         .b = op.b.row<In>(static_cast<std::int64_t>(e)),
                         .b_row = op.trans_b ? 1 : ldb,
                         .b_column = op.trans_b ? ldb : 1,
                         .out = op.out.row<Out>(r),
                         .out_row = op.out.stride(0)});
    }
  });
}

void GroupedMatmulWgrad::check() const {
  expect_product_types("GroupedMatmulWgrad", dw, dy, x, "dw", "dy", "x");
  expect_shape("GroupedMatmulWgrad", "dw", dw, {kAny, kAny, kAny});
  expect_shape("GroupedMatmulWgrad", "dy", dy, {kAny, dw.size(1)});
  expect_shape("GroupedMatmulWgrad", "x", x, {dy.size(0), dw.size(2)});
  expect("GroupedMatmulWgrad", "offsets", offsets, {dw.size(0) + 1}, kI32);
}

std::size_t GroupedMatmulWgrad::workspace_bytes(Device device) const {
  return device == Device::kCuda ? sizeof(std::int32_t) : 0;  // a counter of tiles
}

void run_cpu(const GroupedMatmulWgrad& op, Tensor) {
  const std::vector<ExpertRows> experts =
      expert_rows("GroupedMatmulWgrad", op.offsets, op.dy.size(0));
  const auto has_work = [&](const ExpertRows& e) { return op.overwrite || e.end > e.begin; };
  const std::int64_t busy = std::count_if(experts.begin(), experts.end(), has_work);
  if (busy == 0 || op.dw.count() == 0) return;
  const std::int64_t threads = threads_for(op.dy.count() * op.dw.size(2));
  const std::int64_t wanted = threads > 1 ? threads * kPiecesPerThread : 1;
  const Grid grid = grid_for(op.dw.size(1), op.dw.size(2), (wanted + busy - 1) / busy);
  std::vector<Piece> pieces;
  for (std::size_t e = 0; e < experts.size(); ++e)
    for (std::int64_t i = 0; has_work(experts[e]) && i < grid.rows * grid.columns; ++i)
      pieces.push_back({e, i});
  dispatch_product(op.dy.dtype, op.dw.dtype, [&]<class In, class Out>(In, Out) {
#pragma omp parallel for schedule(dynamic) if (threads > 1 && pieces.size() > 1)
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto [e, index] = pieces[i];
      const std::int64_t r = experts[e].begin;
      Out* const dw = op.dw.row<Out>(static_cast<std::int64_t>(e));
      run_piece(Gemm<In, Out>{.M = op.dw.size(1),
                              .N = op.dw.size(2),
                              .K = experts[e].end - r,
                              .a = op.dy.row<In>(r),
                              .a_row = 1,
                              .a_column = op.dy.stride(0),
                              .b = op.x.row<In>(r),
                              .b_row = op.x.stride(0),
                              .b_column = 1,
                              .out = dw,
                              .out_row = op.dw.stride(1),
                              .c = dw,
                              .c_row = op.dw.stride(1),
                              .beta = op.overwrite ? 0.0 : 1.0},
                grid, index);
    }
  });
}

}  // namespace glmtune::ops
