#include "support/module_check.h"

#include <cmath>
#include <limits>

#include "base/cat.h"
#include "support/gradcheck.h"

namespace glmtune::test {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{4} << 20;

std::vector<double> doubles(const Tensor& t) {
  return {t.as<double>(), t.as<double>() + t.count()};
}

double dot(const Tensor& y, const Tensor& dy) {
  double sum = 0;
  for (std::int64_t i = 0; i < y.count(); ++i) sum += y.as<double>()[i] * dy.as<double>()[i];
  return sum;
}

}  // namespace

ModuleCheck::ModuleCheck(std::uint64_t seed)
    : memory_(Device::kCpu, kArenaBytes, kArenaBytes), random_(seed) {}

Tensor ModuleCheck::make(Shape shape, DType dtype) {
  return owned_.emplace_back(shape, dtype, Device::kCpu);
}

Tensor ModuleCheck::normal(Shape shape, double scale, double mean) {
  const Tensor t = make(shape);
  for (std::int64_t i = 0; i < t.count(); ++i) t.as<double>()[i] = mean + scale * random_.normal();
  return t;
}

nn::Parameter ModuleCheck::parameter(std::string name, Shape shape, double scale, double mean) {
  const Tensor value = normal(shape, scale, mean), grad = normal(shape, 1, 0);
  bool* const begun = &begun_.emplace_back(true);
  checked_.push_back(
      {.name = name, .value = value, .gradient = grad, .adds = true, .begun = begun});
  return {.name = std::move(name), .value = value, .grad = grad, .grad_begun = begun};
}

nn::Parameter ModuleCheck::frozen(std::string name, Shape shape, double scale, double mean) {
  return {.name = std::move(name), .value = normal(shape, scale, mean), .trainable = false};
}

Tensor ModuleCheck::input(const std::string& name, Shape shape, double scale) {
  const Tensor value = normal(shape, scale, 0);
  const Tensor gradient = normal(shape, std::numeric_limits<double>::quiet_NaN(), 0);
  checked_.push_back({.name = name, .value = value, .gradient = gradient});
  return value;
}

ModuleCheck::Checked& ModuleCheck::find(std::string_view name) {
  for (Checked& c : checked_)
    if (c.name == name) return c;
  fail(cat("the module has no input ", name));
}

Tensor ModuleCheck::gradient(std::string_view name) {
  return find(name).gradient;
}

void ModuleCheck::adds_to(std::string_view name) {
  Checked& c = find(name);
  c.adds = true;
  for (std::int64_t i = 0; i < c.gradient.count(); ++i)
    c.gradient.as<double>()[i] = random_.normal();
}

nn::PackedRow ModuleCheck::row(std::initializer_list<std::int32_t> lengths, std::int64_t vocab,
                               const nn::AttentionSettings& settings) {
  const TinyRow tiny = random_row(lengths, vocab, random_.bits());
  const nn::RowLayout& layout =
      layouts_.emplace_back(tiny.ids, tiny.labels, tiny.cu_seqlens, vocab, settings);
  return layout.place(host_numbers(layout, owned_.emplace_back()));
}

std::string ModuleCheck::check_first_backward(const std::function<void(bool keep)>& forward,
                                              const std::function<void()>& backward) {
  std::vector<std::vector<double>> gradients;
  for (Checked& c : checked_) {
    gradients.push_back(doubles(c.gradient));
    if (c.begun == nullptr) continue;
    *c.begun = false;
    std::fill_n(c.gradient.as<double>(), c.gradient.count(),
                std::numeric_limits<double>::quiet_NaN());
  }
  const Scope saved(*ctx().saved);
  forward(true);
  backward();
  std::string problems;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Checked& c = checked_[i];
    if (c.begun != nullptr) {
      const Difference d = compare(doubles(c.gradient), gradients[i]);
      if (!*c.begun || !d.finite || d.rel_l2 > 1e-12)
        problems += cat(c.name, ", written by a step's first backward: ", describe(d), "\n");
    }
    std::copy(gradients[i].begin(), gradients[i].end(), c.gradient.as<double>());
  }
  return problems;
}

std::string ModuleCheck::check(Tensor y, Tensor dy, const std::function<void(bool keep)>& forward,
                               const std::function<void()>& backward) {
  for (std::int64_t i = 0; i < dy.count(); ++i) dy.as<double>()[i] = random_.normal();
  const Scope saved(*ctx().saved);
  for (Checked& c : checked_)
    if (c.adds) c.start = doubles(c.gradient);
  forward(true);
  const std::vector<double> kept = doubles(y), cotangent = doubles(dy);
  backward();

  std::string problems;
  std::vector<GradientPair> pairs;
  for (Checked& c : checked_) {
    for (std::size_t i = 0; i < c.start.size(); ++i) c.gradient.as<double>()[i] -= c.start[i];
    pairs.push_back({c.name, c.value, c.gradient});
  }
  const auto restore_dy = [&] {  // a backward may write over it
    std::copy(cotangent.begin(), cotangent.end(), dy.as<double>());
  };
  restore_dy();
  problems += check_first_backward(forward, backward);
  restore_dy();
  forward(false);
  if (doubles(y) != kept) problems += "y differs when nothing is kept for the backward\n";
  const auto loss = [&] {
    forward(false);
    return dot(y, dy);
  };
  for (const GradientError& e : gradcheck(loss, pairs))
    if (!(e.rel_l2 <= kLimit)) problems += cat(e.name, ": relative L2 error ", e.rel_l2, "\n");
  return problems;
}

}  // namespace glmtune::test
