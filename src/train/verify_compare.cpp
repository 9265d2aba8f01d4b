#include "train/verify_compare.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/cat.h"

namespace glmtune::train {
namespace {

struct RowResult {
  double error = 0, norm = 0, got_norm = 0, max_abs = 0, kl = 0;
  bool same = false;  // the largest logit is the same token
};

double log_sum(const double* z, std::int64_t n, double top) {
  double sum = 0;
  for (std::int64_t v = 0; v < n; ++v) sum += std::exp(z[v] - top);
  return top + std::log(sum);
}

RowResult compare_row(const double* got, const double* want, std::int64_t vocab) {
  RowResult r;
  for (std::int64_t v = 0; v < vocab; ++v) {
    const double d = got[v] - want[v];
    r.error += d * d;
    r.norm += want[v] * want[v];
    r.got_norm += got[v] * got[v];
    if (!(std::abs(d) <= r.max_abs)) r.max_abs = std::abs(d);  // keeps a NaN
  }
  const double* best_got = std::max_element(got, got + vocab);
  const double* best_want = std::max_element(want, want + vocab);
  r.same = best_got - got == best_want - want;
  const double lg = log_sum(got, vocab, *best_got), lw = log_sum(want, vocab, *best_want);
  for (std::int64_t v = 0; v < vocab; ++v)
    r.kl += std::exp(want[v] - lw) * ((want[v] - lw) - (got[v] - lg));
  return r;
}

}  // namespace

VerifyReport::Logits compare_logits(Tensor z, const Reference& reference) {
  const std::int64_t T = z.size(0), V = z.size(1);
  reference.expect_count("logits", z.count());
  std::vector<RowResult> rows(static_cast<std::size_t>(T));
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t t = 0; t < T; ++t) {
    try {
      const auto n = static_cast<std::size_t>(V);
      std::vector<double> got(n), want(n);
      reference.read("logits", t * V, V, want.data());
      dispatch_real(z.dtype, [&]<class X>(X) {
        const X* row = z.row<X>(t);
        for (std::size_t v = 0; v < n; ++v)
          got[v] = static_cast<double>(static_cast<Wide<X>>(row[v]));
      });
      rows[static_cast<std::size_t>(t)] = compare_row(got.data(), want.data(), V);
    } catch (...) {
#pragma omp critical
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  RowResult sum;
  double same = 0;
  for (const RowResult& r : rows) {
    sum.error += r.error;
    sum.norm += r.norm;
    sum.got_norm += r.got_norm;
    sum.kl += r.kl;
    same += r.same ? 1 : 0;
    if (!(r.max_abs <= sum.max_abs)) sum.max_abs = r.max_abs;
  }
  return {.error = {.name = "logits",
                    .rel_l2 = relative(sum.error, sum.norm, sum.got_norm),
                    .max_abs = sum.max_abs},
          .top1 = same / static_cast<double>(T),
          .kl = sum.kl / static_cast<double>(T)};
}

VerifyReport::Overlap compare_choices(const std::string& name, const std::vector<ChosenRow>& rows,
                                      const Reference::Choices& want) {
  VerifyReport::Overlap result{.name = name};
  double same = 0;
  for (const ChosenRow& r : rows) {
    const std::int32_t* list = want.values.data() + r.row * want.width;
    const auto known = std::count_if(list, list + want.width, [](auto v) { return v >= 0; });
    if (known == 0) continue;
    const auto both =
        std::count_if(list, list + want.width, [&](auto v) { return v >= 0 && r.chosen(v); });
    ++result.rows;
    result.mean += static_cast<double>(both) / static_cast<double>(known);
    same += both == known ? 1 : 0;
  }
  if (result.rows == 0) return result;
  result.mean /= static_cast<double>(result.rows);
  result.same_rows = same / static_cast<double>(result.rows);
  return result;
}

}  // namespace glmtune::train
