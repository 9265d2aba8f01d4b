// The router of a BF16 model computes in fp32, its gradients too: only x, the gate's weight and dx
// are rounded.
#include <gtest/gtest.h>

#include "nn/router.h"
#include "support/compare.h"
#include "support/op_case.h"

namespace glmtune::nn {
namespace {

constexpr std::int64_t T = 33, C = 24, E = 8, K = 3;

struct GateGradients {
  std::vector<double> weight, x;
};

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
  return {test::values_of(router.gate.weight.grad), test::values_of(dx)};
}

TEST(RouterPrecision, GradientsOfTheLogitsAreNotRounded) {
  const GateGradients exact = backward(DType::kF64), bf16 = backward(DType::kBF16);
  // Sums of 33 products in fp32: a half step, 2^-24, for each root of their number and a few more.
  const test::Difference weight = test::compare(bf16.weight, exact.weight);
  EXPECT_TRUE(weight.finite && weight.rel_l2 <= 1e-6) << describe(weight);
  const test::Difference x = test::compare(bf16.x, exact.x);
  EXPECT_TRUE(x.finite && x.rel_l2 <= 0x1p-9) << describe(x);  // dx itself is BF16
}

}  // namespace
}  // namespace glmtune::nn
