#include "ops/kernel.cuh"
#include "ops/split_bf16.h"

namespace glmtune::ops {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    split_kernel(Rows<bf16> y, Rows<const float> x, std::int64_t columns, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t row = i / columns, column = i - row * columns;
  float rest = x[row][column];
#pragma unroll
  for (int part = 0; part < 3; ++part) {
    const bf16 b = __float2bfloat16_rn(rest);
    y[row][part * columns + column] = b;
    rest -= __bfloat162float(b);
  }
}

}  // namespace

void run_cuda(Context& ctx, const SplitBf16& op, Tensor) {
  const std::int64_t count = op.x.count();
  if (count == 0) return;
  split_kernel<<<static_cast<unsigned>(ceil_div(count, kThreads)), kThreads, 0, stream_of(ctx)>>>(
      Rows<bf16>(op.y), Rows<const float>(op.x), op.x.size(1), count);
  CHECK_LAUNCH();
}

}  // namespace glmtune::ops
