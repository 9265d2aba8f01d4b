// The router of a BF16 model computes in fp32, its gradients too: only x, the gate's weight and dx
// are rounded.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/router.h"
#include "support/op_case.h"

namespace glmtune::nn {
namespace {

constexpr std::int64_t T = 33, C = 24, E = 8, K = 3;

struct GateGradients {
  std::vector<double> weight, x;
};

std::vector<double> doubles(const Tensor& t) {
  std::vector<double> out(static_cast<std::size_t>(t.count()));
  dispatch_real(t.dtype, [&]<class V>(V) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(t.as<V>()[i]);
  });
  return out;
}

// The same numbers, all of them BF16's, in a router of this type.
GateGradients backward(DType dtype) {
  test::TestContext memory(Device::kCpu, std::size_t{1} << 20, std::size_t{1} << 20);
  Context& ctx = memory.ctx;
  test::Random random(3);
  std::vector<OwnedTensor> owned;
  owned.reserve(8);
  const auto make = [&](Shape shape, DType type, double scale) -> Tensor {
    const Tensor t = owned.emplace_back(shape, type, Device::kCpu);
    dispatch_real(type, [&]<class V>(V) {
      for (std::int64_t i = 0; i < t.count(); ++i)
        t.as<V>()[i] = static_cast<V>(
            static_cast<double>(static_cast<float>(BFloat16(scale * random.normal()))));
    });
    return t;
  };
  Router router;
  router.num_experts_per_tok = K;
  router.routed_scaling_factor = 2.5;
  router.gate.weight = {.name = "gate", .value = make({E, C}, dtype, 0.5)};
  const Tensor x = make({T, C}, dtype, 1), dweights = make({T, K}, wide(dtype), 1e-3);
  router.gate.weight.grad = make({E, C}, wide(dtype), 0);
  router.e_score_correction_bias.value = make({E}, DType::kF32, 0);
  const Tensor weights = make({T, K}, wide(dtype), 0), dx = make({T, C}, dtype, 0);
  const Routing routing = Routing::allocate(*ctx.saved, T, E, K);
  Router::Saved saved;
  router.forward(ctx, weights, x, routing, {}, &saved);
  router.backward(ctx, dx, dweights, routing, saved);
  return {doubles(router.gate.weight.grad), doubles(dx)};
}

double relative_l2(const std::vector<double>& got, const std::vector<double>& want) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(error / norm);
}

TEST(RouterPrecision, GradientsOfTheLogitsAreNotRounded) {
  const GateGradients exact = backward(DType::kF64), bf16 = backward(DType::kBF16);
  EXPECT_LE(relative_l2(bf16.weight, exact.weight), 1e-6);
  EXPECT_LE(relative_l2(bf16.x, exact.x), 0x1p-9);  // dx itself is BF16
}

}  // namespace
}  // namespace glmtune::nn
