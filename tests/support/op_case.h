#pragma once
// One description per op, or per op and its gradient, that serves every check and the benchmark.
// No test framework here: each check returns "" or what is wrong.
//
//   OpCase scale_case(std::int64_t T, std::int64_t C) {
//     return {.name = cat("Scale ", T, "x", C), .build = [=](Operands& o) {
//       const ops::Scale op{.x = o.in_place("x", {T, C}, o.real()), .factor = 0.5};
//       return Program{.steps = {step("Scale", op, {.flop = double(T * C)})}};
//     }};
//   }
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device.h"
#include "ops/op.h"
#include "support/compare.h"
#include "support/operands.h"

namespace glmtune::test {

struct Cost {
  double flop = 0;
  double bytes = 0;  // 0: every operand once
};

struct Step {
  std::string name;
  std::function<void(Context&)> run;
  Cost cost;
};

template <class Op>
Step step(std::string name, const Op& op, const Cost& cost = {}) {
  return {std::move(name), [op](Context& ctx) { run(ctx, op); }, cost};
}

// The steps run in order on one set of operands: usually an op and its backward.
struct Program {
  std::vector<Step> steps;
  // For the gradient check: the loss is Σ ⟨tensor after the forward, cotangent's initial value⟩
  // over `seeds` {tensor, cotangent}; `gradients` are {input, its gradient}. The first
  // `forward_steps` steps are the forward.
  std::vector<std::pair<std::string, std::string>> seeds = {};
  std::vector<std::pair<std::string, std::string>> gradients = {};
  int forward_steps = 1;
};

struct OpCase {
  std::string name;
  std::function<Program(Operands&)> build;
  std::int64_t sum_length = 1;                              // of the longest sum, for tolerances
  std::vector<DType> dtypes = {DType::kF32, DType::kBF16};  // beside F64, the definition
  bool rounds_between = false;  // a step reads what an earlier one rounded to the storage type
  double tolerance_factor = 1;  // for ops whose results amplify rounding; say why at the case
};

// A context with its own arenas, both filled with ones (NaN).
class TestContext {
 public:
  explicit TestContext(Device device, std::size_t scratch_bytes = std::size_t{16} << 20,
                       std::size_t saved_bytes = 0);
  TestContext(const TestContext&) = delete;
  TestContext& operator=(const TestContext&) = delete;
  ~TestContext();
  Context ctx;
  void synchronize();

 private:
  CudaContextPtr cuda_;
  Arena saved_, scratch_;
};

bool cuda_device_present();

// F64, on the CPU: analytic gradients against differences, rel. L2 per tensor ≤ limit.
std::string check_gradients(const OpCase& c, double limit = 1e-9);
// Nothing outside the outputs is written, every output element is, and twice gives the same bits.
std::string check_outputs(const OpCase& c, DType dtype, std::int64_t pad, Device device);
// On the CPU: F32 or BF16 against F64 with the same inputs.
std::string check_precision(const OpCase& c, DType dtype);
// The device's results against the CPU's, on the same inputs.
std::string check_cuda(const OpCase& c, DType dtype, std::int64_t pad);

}  // namespace glmtune::test
