#include "ops/fake_gate.h"

#include <cmath>
#include <vector>

#include "base/cat.h"
#include "ops/expect.h"
#include "ops/rows_of.h"

namespace glmtune::ops {
namespace {

template <class W>
void choose(const FakeGate& op) {
  const FakeChoice choice = fake_choice(op);
  std::vector<std::int32_t> favours;
  for (std::int64_t e = 0; e < op.experts; ++e) favours.push_back(choice.favour(e));
#pragma omp parallel for
  for (std::int64_t t = 0; t < op.weights.size(0); ++t)
    choice.fill(t, op.noise, favours.data(),
                op.expert_ids.as<std::int32_t>() + t * op.expert_ids.stride(0),
                op.weights.as<W>() + t * op.weights.stride(0));
}

}  // namespace

void FakeGate::check() const {
  expect_shape("FakeGate", "weights", weights, {kAny, kAny});
  expect_dtype("FakeGate", "weights", weights, {DType::kF64, DType::kF32});
  expect("FakeGate", "expert_ids", expert_ids, {weights.size(0), weights.size(1)}, DType::kI32);
  if (experts < weights.size(1))
    fail(cat("FakeGate: ", experts, " experts, fewer than the ", weights.size(1), " per token"));
  if (!(noise >= 0 && noise <= 1)) fail(cat("FakeGate: noise is ", noise, ", expected 0 to 1"));
}

FakeChoice fake_choice(const FakeGate& op) {
  const double unit = 0.1 * std::sqrt(3.0);  // four uniforms have variance 1/3
  return {.experts = op.experts,
          .chosen = op.weights.size(1),
          .bias_scale = std::llround(op.noise * unit * 65536),
          .seed = op.seed};
}

void run_cpu(const FakeGate& op, Tensor) {
  if (op.weights.dtype == DType::kF64)
    choose<double>(op);
  else
    choose<float>(op);
}

}  // namespace glmtune::ops
