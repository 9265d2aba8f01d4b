#include "ops/kernel.cuh"
#include "ops/normal.h"
#include "ops/random.h"

namespace glmtune::ops {
namespace {

constexpr int kThreads = 256;

// A thread makes the four values of one Philox block.
template <class T>
__global__ void __launch_bounds__(kThreads)
    normal_kernel(T* y, std::int64_t n, std::uint64_t key, double deviation, std::int64_t first) {
  const std::int64_t block =
      first / 4 + static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t at = block * 4 - first;
  if (at >= n) return;
  const Philox p = philox(key, static_cast<std::uint64_t>(block), 0);
  Pack<T, 4> values;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const NormalPair pair = box_muller(p.word[i], p.word[i + 1]);
    values.v[i] = from_float<T>(static_cast<float>(deviation * pair.first));
    values.v[i + 1] = from_float<T>(static_cast<float>(deviation * pair.second));
  }
  if (at >= 0 && at + 4 <= n && reinterpret_cast<std::uintptr_t>(y + at) % sizeof(values) == 0) {
    store<T, 4>(y + at, values);
    return;
  }
  for (int i = 0; i < 4; ++i)
    if (at + i >= 0 && at + i < n) y[at + i] = values.v[i];
}

}  // namespace

void run_cuda(Context& ctx, const RandomNormal& op, Tensor) {
  const std::int64_t n = op.y.count();
  if (n == 0) return;
  const std::int64_t blocks = ceil_div(op.first + n, 4) - op.first / 4;
  dispatch_gpu(op.y.dtype, "RandomNormal", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    normal_kernel<T>
        <<<static_cast<unsigned>(ceil_div(blocks, kThreads)), kThreads, 0, stream_of(ctx)>>>(
            op.y.as<T>(), n, op.key, op.deviation, op.first);
    CHECK_LAUNCH();
  });
}

}  // namespace glmtune::ops
