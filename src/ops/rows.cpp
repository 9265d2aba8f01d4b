#include "ops/rows.h"

#include <cstring>

#include "base/cat.h"
#include "ops/expect.h"
#include "ops/rows_of.h"

namespace glmtune::ops {
namespace {

void expect_inside(const char* op, const char* name, const Tensor& index, std::int64_t rows) {
  const auto* i = index.as<std::int32_t>();
  for (std::int64_t r = 0; r < index.count(); ++r)
    if (i[r] < 0 || i[r] >= rows)
      fail(cat(op, ": ", name, "[", r, "] is ", i[r], ", expected 0 to ", rows - 1));
}

void expect_slots(const char* op, const Tensor& row_of_slot, std::int64_t tokens) {
  expect(op, "row_of_slot", row_of_slot, {tokens, kAny}, DType::kI32);
  if (!row_of_slot.contiguous()) fail(cat(op, ": row_of_slot is strided, expected dense"));
}

// Row addresses in bytes, for any element type.
std::byte* row_bytes(const Tensor& t, std::int64_t r) {
  return t.as<std::byte>() + r * t.stride(0) * static_cast<std::int64_t>(size_of(t.dtype));
}

// y[rows[t·slots + j]] = x[t] for j < slots.
void spread(const Tensor& y, const Tensor& x, const Tensor& rows, std::int64_t slots) {
  const auto* row = rows.as<std::int32_t>();
  const std::size_t bytes = static_cast<std::size_t>(x.size(1)) * size_of(x.dtype);
#pragma omp parallel for if (y.count() > kParallelElements)
  for (std::int64_t t = 0; t < x.size(0); ++t)
    for (std::int64_t j = t * slots; j < (t + 1) * slots; ++j)
      std::memcpy(row_bytes(y, row[j]), row_bytes(x, t), bytes);
}

}  // namespace

void GatherRows::check() const {
  expect_shape("GatherRows", "x", x, {kAny, kAny});
  expect("GatherRows", "y", y, {kAny, x.size(1)}, x.dtype);
  expect("GatherRows", "index", index, {y.size(0)}, DType::kI32);
}

void run_cpu(const GatherRows& op, Tensor) {
  expect_inside("GatherRows", "index", op.index, op.x.size(0));
  const auto* index = op.index.as<std::int32_t>();
  const std::size_t bytes = static_cast<std::size_t>(op.x.size(1)) * size_of(op.x.dtype);
#pragma omp parallel for if (op.y.count() > kParallelElements)
  for (std::int64_t r = 0; r < op.y.size(0); ++r)
    std::memcpy(row_bytes(op.y, r), row_bytes(op.x, index[r]), bytes);
}

void SpreadRows::check() const {
  expect_shape("SpreadRows", "x", x, {kAny, kAny});
  expect_slots("SpreadRows", row_of_slot, x.size(0));
  expect("SpreadRows", "y", y, {row_of_slot.count(), x.size(1)}, x.dtype);
}

void run_cpu(const SpreadRows& op, Tensor) {
  expect_inside("SpreadRows", "row_of_slot", op.row_of_slot, op.y.size(0));
  spread(op.y, op.x, op.row_of_slot, op.row_of_slot.size(1));
}

void ScatterRows::check() const {
  expect_shape("ScatterRows", "x", x, {kAny, kAny});
  expect("ScatterRows", "y", y, {kAny, x.size(1)}, x.dtype);
  expect("ScatterRows", "index", index, {x.size(0)}, DType::kI32);
}

void run_cpu(const ScatterRows& op, Tensor) {
  expect_inside("ScatterRows", "index", op.index, op.y.size(0));
  spread(op.y, op.x, op.index, 1);
}

void CombineRows::check() const {
  expect_real("CombineRows", "x", x, {kAny, kAny});
  expect("CombineRows", "y", y, {kAny, x.size(1)}, x.dtype);
  expect_slots("CombineRows", row_of_slot, y.size(0));
  if (base.defined()) expect_same("CombineRows", "base", base, "y", y);
}

void run_cpu(const CombineRows& op, Tensor) {
  expect_inside("CombineRows", "row_of_slot", op.row_of_slot, op.x.size(0));
  dispatch_real(op.x.dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const std::int64_t tokens = op.y.size(0), C = op.y.size(1), K = op.row_of_slot.size(1);
    constexpr std::int64_t kColumns = 256;  // sums stay in the first-level cache
#pragma omp parallel for if (op.y.count() > kParallelElements)
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int32_t* slots = op.row_of_slot.row<std::int32_t>(t);
      for (std::int64_t begin = 0; begin < C; begin += kColumns) {
        const std::int64_t n = C - begin < kColumns ? C - begin : kColumns;
        W sum[kColumns];
        const T* base = op.base.defined() ? op.base.row<T>(t) + begin : nullptr;
        for (std::int64_t c = 0; c < n; ++c) sum[c] = base != nullptr ? W(base[c]) : W(0);
        for (std::int64_t j = 0; j < K; ++j) {
          const T* x = op.x.row<T>(slots[j]) + begin;
          for (std::int64_t c = 0; c < n; ++c) sum[c] += W(x[c]);
        }
        T* y = op.y.row<T>(t) + begin;
        for (std::int64_t c = 0; c < n; ++c) y[c] = T(sum[c]);
      }
    }
  });
}

}  // namespace glmtune::ops
