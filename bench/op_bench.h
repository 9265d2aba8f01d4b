#pragma once
// What the benchmarks of single ops on a CUDA device share: random operands and a line per op.
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "bench.h"
#include "cuda/device.h"
#include "ops/op.h"

namespace glmtune::bench {

// Half a second of rest; a sample is long enough for the host's clock.
inline constexpr Timing kOpTiming{
    .rest = 0.5, .burst = 5, .sustained = 9, .fewest_runs = 3, .most_runs = 16};

class OpBench {
 public:
  OpBench() : device_(make_cuda_context(0)), scratch_(std::size_t{2} << 30, Device::kCuda) {
    ctx_.device = ctx_.target = Device::kCuda;
    ctx_.stream = cuda_stream(*device_);
    ctx_.cuda = device_.get();
    ctx_.scratch = &scratch_;
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    for (BFloat16& x : list_) x = BFloat16(normal(rng));
  }

  OwnedTensor zeros(Shape shape, DType dtype) { return {shape, dtype, Device::kCuda}; }
  // Normal numbers out of one list, from another place each time.
  OwnedTensor normal(Shape shape) {
    OwnedTensor t(shape, DType::kBF16, Device::kCuda);
    const Tensor flat = t.view.reshape({t.view.count()});
    const auto size = static_cast<std::int64_t>(list_.size());
    const Tensor list = Tensor::dense(list_.data(), {size}, DType::kBF16, Device::kCpu);
    for (std::int64_t done = 0; done < flat.count();) {
      at_ = (at_ + 1000003) % (size / 2);
      const std::int64_t n = std::min(flat.count() - done, size - at_);
      copy_bytes(flat.rows(done, done + n), list.rows(at_, at_ + n));
      done += n;
    }
    return t;
  }
  template <class T>
  OwnedTensor upload(Shape shape, DType dtype, std::vector<T>& values) {
    OwnedTensor t(shape, dtype, Device::kCuda);
    copy_bytes(t, Tensor::dense(values.data(), shape, dtype, Device::kCpu));
    return t;
  }

  template <class Op>
  void line(const std::string& name, double flop, const Op& op) {
    const auto [burst, sustained] = time_on_device(*device_, kOpTiming, [&] { run(ctx_, op); });
    std::printf("%-36s %9.3f ms %6.0f TFLOP/s   %9.3f ms %6.0f TFLOP/s\n", name.c_str(), burst,
                flop / burst * 1e-9, sustained, flop / sustained * 1e-9);
    std::fflush(stdout);
  }

 private:
  CudaContextPtr device_;
  Arena scratch_;
  Context ctx_;
  std::vector<BFloat16> list_ = std::vector<BFloat16>(std::size_t{1} << 24);
  std::int64_t at_ = 0;
};

}  // namespace glmtune::bench
