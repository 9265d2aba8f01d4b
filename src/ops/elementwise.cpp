#include "ops/elementwise.h"

#include <cstring>

#include "ops/expect.h"
#include "ops/rows_of.h"

namespace glmtune::ops {
namespace {

// IEEE half precision as storage.
struct Half {
  std::uint16_t bits;
  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    // Shifted into place the exponent is 112 short; the product also makes subnormals right.
    const float x = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const std::uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0;
    return std::bit_cast<float>(sign | special | std::bit_cast<std::uint32_t>(x));
  }
};

template <class F>
void dispatch_source(DType t, F&& f) {
  if (t == DType::kF16)
    f(Half{});
  else
    dispatch_real(t, f);
}

template <class D, class S>
D convert(S x) {
  if constexpr (std::is_same_v<D, S>)
    return x;
  else if constexpr (std::is_same_v<S, double> && std::is_same_v<D, BFloat16>)
    return BFloat16(x);
  else if constexpr (std::is_same_v<S, double>)
    return D(x);
  else
    return D(static_cast<float>(x));
}

template <class D, class S>
void convert_rows(const Tensor& dst, const Tensor& src) {
  const RowsOf<D> to(dst);
  const RowsOf<S> from(src);
#pragma omp parallel for if (dst.count() > kParallelElements)
  for (std::int64_t r = 0; r < to.rows; ++r) {
    D* d = to[r];
    const S* s = from[r];
    for (std::int64_t c = 0; c < to.columns; ++c) d[c] = convert<D>(s[c]);
  }
}

void copy_rows(const Tensor& dst, const Tensor& src) {
  const auto size = static_cast<std::int64_t>(size_of(dst.dtype));
  // Rows as bytes: the same code for every type.
  Tensor to = dst, from = src;
  for (Tensor* t : {&to, &from}) {
    t->sizes[static_cast<std::size_t>(t->rank - 1)] *= size;
    for (int d = 0; d + 1 < t->rank; ++d) t->strides[static_cast<std::size_t>(d)] *= size;
  }
  const RowsOf<std::byte> d(to), s(from);
#pragma omp parallel for if (dst.count() > kParallelElements)
  for (std::int64_t r = 0; r < d.rows; ++r)
    std::memcpy(d[r], s[r], static_cast<std::size_t>(d.columns));
}

}  // namespace

void Add::check() const {
  expect_dtype("Add", "out", out, {DType::kF64, DType::kF32, DType::kBF16});
  expect_same("Add", "a", a, "out", out);
  expect_same("Add", "b", b, "out", out);
}

void run_cpu(const Add& op, Tensor) {
  dispatch_real(op.out.dtype, [&]<class T>(T) {
    const RowsOf<T> out(op.out), a(op.a), b(op.b);
#pragma omp parallel for if (op.out.count() > kParallelElements)
    for (std::int64_t r = 0; r < out.rows; ++r) {
      T* o = out[r];
      const T *x = a[r], *y = b[r];
      for (std::int64_t c = 0; c < out.columns; ++c) o[c] = T(Wide<T>(x[c]) + Wide<T>(y[c]));
    }
  });
}

void Copy::check() const {
  if (!dst.same_shape(src))
    fail("Copy: dst is " + dst.shape_string() + ", src is " + src.shape_string());
  if (dst.dtype == src.dtype) return;
  expect_dtype("Copy", "dst", dst, {DType::kF64, DType::kF32, DType::kBF16});
  expect_dtype("Copy", "src", src, {DType::kF64, DType::kF32, DType::kBF16, DType::kF16});
}

void run_cpu(const Copy& op, Tensor) {
  if (op.dst.dtype == op.src.dtype) {
    copy_rows(op.dst, op.src);
    return;
  }
  dispatch_real(op.dst.dtype, [&]<class D>(D) {
    dispatch_source(op.src.dtype, [&]<class S>(S) { convert_rows<D, S>(op.dst, op.src); });
  });
}

void Fill::check() const {
  expect_dtype("Fill", "x", x, {DType::kF64, DType::kF32, DType::kBF16});
}

void run_cpu(const Fill& op, Tensor) {
  dispatch_real(op.x.dtype, [&]<class T>(T) {
    const RowsOf<T> x(op.x);
    const T value(op.value);
#pragma omp parallel for if (op.x.count() > kParallelElements)
    for (std::int64_t r = 0; r < x.rows; ++r) std::fill_n(x[r], x.columns, value);
  });
}

void Scale::check() const {
  expect_dtype("Scale", "x", x, {DType::kF64, DType::kF32, DType::kBF16});
}

void run_cpu(const Scale& op, Tensor) {
  dispatch_real(op.x.dtype, [&]<class T>(T) {
    const RowsOf<T> x(op.x);
    const auto factor = static_cast<Wide<T>>(op.factor);
#pragma omp parallel for if (op.x.count() > kParallelElements)
    for (std::int64_t r = 0; r < x.rows; ++r) {
      T* p = x[r];
      for (std::int64_t c = 0; c < x.columns; ++c) p[c] = T(Wide<T>(p[c]) * factor);
    }
  });
}

void AddSum::check() const {
  expect("AddSum", "out", out, {1}, DType::kF64);
  expect_shape("AddSum", "x", x, {kAny});
  expect_dtype("AddSum", "x", x, {DType::kF64, DType::kF32});
}

void run_cpu(const AddSum& op, Tensor) {
  dispatch_real(op.x.dtype, [&]<class T>(T) {
    const T* x = op.x.as<T>();
    double sum = 0;
    for (std::int64_t i = 0; i < op.x.count(); ++i) sum += static_cast<double>(x[i]);
    *op.out.as<double>() += sum;
  });
}

}  // namespace glmtune::ops
