#pragma once
// Gradient checks of modules in double: every parameter and input of a module against central
// differences of Σ y ⊙ dy, and the contract of its backward: parameter gradients add, or are
// written by the first backward of a step; activation gradients overwrite (or add where the module
// says so).
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/packed_row.h"
#include "nn/parameter.h"
#include "support/op_case.h"
#include "support/tiny_model.h"

namespace glmtune::test {

class ModuleCheck {
 public:
  static constexpr double kLimit = 1e-8;  // relative L2 error per tensor

  explicit ModuleCheck(std::uint64_t seed);

  Context& ctx() { return memory_.ctx; }
  Random& random() { return random_; }

  // N(mean, scale) in double, with a gradient that is not zero at first.
  nn::Parameter parameter(std::string name, Shape shape, double scale = 0.4, double mean = 0);
  // The same without a gradient, and not part of the check.
  nn::Parameter frozen(std::string name, Shape shape, double scale = 0.4, double mean = 0);
  // An input that is differentiated; gradient(name) is where the backward writes, NaN at first.
  Tensor input(const std::string& name, Shape shape, double scale = 1);
  Tensor gradient(std::string_view name);
  // Memory of the caller that lives as long as the check.
  Tensor make(Shape shape, DType dtype = DType::kF64);

  // The gradient of the input `name` is added to: starts as numbers, not NaN.
  void adds_to(std::string_view name);

  // A row of documents of the given lengths that lives as long as the check.
  nn::PackedRow row(std::initializer_list<std::int32_t> lengths, std::int64_t vocab,
                    const nn::AttentionSettings& settings);

  // Writes random numbers to dy, runs `forward(true)` (keeping for the backward) and `backward`
  // once, then compares with differences of `forward(false)`. Both forwards must give y the same
  // bits, and both again with parameter gradients that were just started the same gradients. "" or
  // what is wrong.
  std::string check(Tensor y, Tensor dy, const std::function<void(bool keep)>& forward,
                    const std::function<void()>& backward);

 private:
  struct Checked {
    std::string name;
    Tensor value, gradient;
    bool adds = false;
    bool* begun = nullptr;  // of a parameter
    std::vector<double> start = {};
  };
  std::string check_first_backward(const std::function<void(bool keep)>& forward,
                                   const std::function<void()>& backward);
  Checked& find(std::string_view name);
  Tensor normal(Shape shape, double scale, double mean);

  TestContext memory_;
  Random random_;
  std::deque<OwnedTensor> owned_;
  std::deque<nn::RowLayout> layouts_;
  std::deque<Checked> checked_;
  std::deque<bool> begun_;
};

}  // namespace glmtune::test
