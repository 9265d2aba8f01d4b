#include "ops/embedding.h"

#include <algorithm>
#include <cstring>

#include "base/cat.h"
#include "ops/expect.h"
#include "ops/radix_sort.h"
#include "ops/rows_of.h"

namespace glmtune::ops {
namespace {

void expect_ids_inside(const char* op, const Tensor& ids, std::int64_t V) {
  const auto* id = ids.as<std::int32_t>();
  for (std::int64_t t = 0; t < ids.count(); ++t)
    if (id[t] < 0 || id[t] >= V)
      fail(cat(op, ": the token id at position ", t, " is ", id[t], ", expected 0 to ", V - 1,
               ", the rows of the embedding table"));
}

}  // namespace

void Embedding::check() const {
  expect_real("Embedding", "table", table, {kAny, kAny});
  expect("Embedding", "y", y, {kAny, table.size(1)}, table.dtype);
  expect("Embedding", "ids", ids, {y.size(0)}, DType::kI32);
}

void run_cpu(const Embedding& op, Tensor) {
  expect_ids_inside("Embedding", op.ids, op.table.size(0));
  const std::size_t bytes = static_cast<std::size_t>(op.y.size(1)) * size_of(op.y.dtype);
  dispatch_real(op.y.dtype, [&]<class T>(T) {
#pragma omp parallel for if (op.y.count() > kParallelElements)
    for (std::int64_t t = 0; t < op.y.size(0); ++t)
      std::memcpy(op.y.row<T>(t), op.table.row<T>(op.ids.as<std::int32_t>()[t]), bytes);
  });
}

void EmbeddingBackward::check() const {
  expect_real("EmbeddingBackward", "dy", dy, {kAny, kAny});
  expect_shape("EmbeddingBackward", "dtable", dtable, {kAny, dy.size(1)});
  expect_dtype("EmbeddingBackward", "dtable", dtable, {wide(dy.dtype), dy.dtype});
  expect("EmbeddingBackward", "ids", ids, {dy.size(0)}, DType::kI32);
}

std::size_t EmbeddingBackward::workspace_bytes(Device device) const {
  return device == Device::kCpu ? 0 : radix_sort_bytes(ids.count());
}

void run_cpu(const EmbeddingBackward& op, Tensor) {
  expect_ids_inside("EmbeddingBackward", op.ids, op.dtable.size(0));
  // Each thread takes columns and goes through all tokens in order.
  constexpr std::int64_t kColumns = 128;
  const std::int64_t C = op.dy.size(1);
  const auto* ids = op.ids.as<std::int32_t>();
  dispatch_real(op.dy.dtype, [&]<class T>(T) {
    dispatch_real(op.dtable.dtype, [&]<class D>(D) {
      using W = Wide<T>;
#pragma omp parallel for if (op.dy.count() > kParallelElements)
      for (std::int64_t begin = 0; begin < C; begin += kColumns)
        for (std::int64_t t = 0; t < op.dy.size(0); ++t) {
          const T* dy = op.dy.row<T>(t);
          D* d = op.dtable.row<D>(ids[t]);
          for (std::int64_t c = begin; c < std::min(C, begin + kColumns); ++c)
            d[c] = D(W(d[c]) + W(dy[c]));
        }
    });
  });
}

}  // namespace glmtune::ops
