#include "support/compare.h"

#include <algorithm>
#include <cmath>

#include "base/cat.h"

namespace glmtune::test {
namespace {

template <class T>
void append(const Tensor& t, std::vector<double>& out) {
  std::array<std::int64_t, 4> n{1, 1, 1, 1}, s{};
  for (int d = 0; d < t.rank; ++d) {
    n[static_cast<std::size_t>(4 - t.rank + d)] = t.size(d);
    s[static_cast<std::size_t>(4 - t.rank + d)] = t.stride(d);
  }
  const T* p = t.as<T>();
  for (std::int64_t i = 0; i < n[0]; ++i)
    for (std::int64_t j = 0; j < n[1]; ++j)
      for (std::int64_t k = 0; k < n[2]; ++k)
        for (std::int64_t l = 0; l < n[3]; ++l)
          out.push_back(static_cast<double>(p[i * s[0] + j * s[1] + k * s[2] + l * s[3]]));
}

}  // namespace

std::vector<double> values_of(const Tensor& t) {
  check(t.device == Device::kCpu, "values_of: the tensor is not in host memory");
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(t.count()));
  switch (t.dtype) {
    case DType::kF64:
      append<double>(t, out);
      break;
    case DType::kF32:
      append<float>(t, out);
      break;
    case DType::kBF16:
      append<BFloat16>(t, out);
      break;
    case DType::kI64:
      append<std::int64_t>(t, out);
      break;
    case DType::kI32:
      append<std::int32_t>(t, out);
      break;
    case DType::kI16:
      append<std::int16_t>(t, out);
      break;
    case DType::kU32:
      append<std::uint32_t>(t, out);
      break;
    case DType::kU16:
      append<std::uint16_t>(t, out);
      break;
    case DType::kU8:
      append<std::uint8_t>(t, out);
      break;
    default:
      fail(cat("values_of: no conversion from ", name_of(t.dtype)));
  }
  return out;
}

Difference compare(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size())
    fail(cat("compare: ", got.size(), " values against ", want.size()));
  Difference d;
  double sum = 0, reference = 0, own = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) {
      const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
      if (!same && d.finite) {
        d.finite = false;
        d.worst = static_cast<std::int64_t>(i);
      }
      continue;
    }
    const double e = std::abs(got[i] - want[i]);
    if (e > d.max_abs) {
      d.max_abs = e;
      if (d.finite) d.worst = static_cast<std::int64_t>(i);
    }
    sum += e * e;
    reference += want[i] * want[i];
    own += got[i] * got[i];
  }
  const double norm = std::sqrt(reference > 0 ? reference : own);
  d.rel_l2 = norm > 0 ? std::sqrt(sum) / norm : 0;
  return d;
}

Difference compare(const Tensor& got, const Tensor& want) {
  if (!got.same_shape(want))
    fail(cat("compare: ", got.shape_string(), " against ", want.shape_string()));
  return compare(values_of(got), values_of(want));
}

std::string describe(const Difference& d) {
  return cat("rel. L2 ", d.rel_l2, ", max abs ", d.max_abs, " at element ", d.worst,
             d.finite ? "" : " (not finite)");
}

double tolerance(DType t, std::int64_t sum_length) {
  const double arithmetic = t == DType::kF64 ? 0x1p-53 : 0x1p-24;
  const double storage = t == DType::kBF16 ? 0x1p-9 : arithmetic;
  return 4 * (storage +
              arithmetic * std::sqrt(static_cast<double>(std::max<std::int64_t>(sum_length, 1))));
}

}  // namespace glmtune::test
