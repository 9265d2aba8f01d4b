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
GateGradients backward(DType dtype, Device device = Device::kCpu) {
  test::TestContext memory(device, std::size_t{1} << 20, std::size_t{1} << 20);
  Context& ctx = memory.ctx;
  test::Random random(3);
  std::vector<OwnedTensor> owned;
  owned.reserve(8);
  const auto make = [&](Shape shape, DType type, double scale) -> Tensor {
    const OwnedTensor host(shape, type, Device::kCpu);
    const Tensor t = host;
    dispatch_real(type, [&]<class V>(V) {
      for (std::int64_t i = 0; i < t.count(); ++i)
        t.as<V>()[i] = static_cast<V>(
            static_cast<double>(static_cast<float>(BFloat16(scale * random.normal()))));
    });
    const Tensor there = owned.emplace_back(shape, type, device);
    copy_bytes(there, t, ctx.stream);
    return there;
  };
  const auto values = [&](Tensor t) {
    const OwnedTensor host({t.size(0), t.size(1)}, t.dtype, Device::kCpu);
    copy_bytes(host, t, ctx.stream);
    return test::values_of(host);
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
  return {values(router.gate.weight.grad), values(dx)};
}

void expect_unrounded(const GateGradients& bf16) {
  const GateGradients exact = backward(DType::kF64);
  // Sums of 33 products in fp32: a half step, 2^-24, for each root of their number and a few more.
  const test::Difference weight = test::compare(bf16.weight, exact.weight);
  EXPECT_TRUE(weight.finite && weight.rel_l2 <= 1e-6) << describe(weight);
  const test::Difference x = test::compare(bf16.x, exact.x);
  EXPECT_TRUE(x.finite && x.rel_l2 <= 0x1p-9) << describe(x);  // dx itself is BF16
}

TEST(RouterPrecision, GradientsOfTheLogitsAreNotRounded) {
  expect_unrounded(backward(DType::kBF16));
}

TEST(RouterPrecision, GradientsOfTheLogitsAreNotRoundedOnAGpu) {
  if (!test::cuda_device_present()) GTEST_SKIP() << "no CUDA device";
  expect_unrounded(backward(DType::kBF16, Device::kCuda));
}

}  // namespace
}  // namespace glmtune::nn
