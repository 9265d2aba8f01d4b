#include "tensor/staging.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "cuda/device.h"

namespace glmtune {
namespace {

// On the GPU where there is one: more uploads than the ring has slots, of growing sizes, from
// memory that changes right after each.
void upload_many(Device device, void* stream) {
  UploadRing ring(device);
  std::vector<OwnedTensor> targets;
  for (std::int64_t n = 1; n <= 3 * static_cast<std::int64_t>(UploadRing::kSlots); ++n) {
    std::vector<std::int32_t> source(static_cast<std::size_t>(1000 * n));
    std::iota(source.begin(), source.end(), static_cast<std::int32_t>(n));
    targets.emplace_back(Shape{1000 * n}, DType::kI32, device);
    ring.upload(targets.back(), std::as_bytes(std::span(source)), stream);
    std::fill(source.begin(), source.end(), -1);
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::int64_t n = targets[i].view.count();
    const OwnedTensor host({n}, DType::kI32, Device::kCpu);
    copy_bytes(host, targets[i], stream);
    EXPECT_EQ(host.view.as<std::int32_t>()[0], static_cast<std::int32_t>(i + 1));
    EXPECT_EQ(host.view.as<std::int32_t>()[n - 1], static_cast<std::int32_t>(i + 1) + n - 1);
  }
}

TEST(Staging, SourceMayChangeAfterAnUpload) {
  upload_many(Device::kCpu, nullptr);
}

TEST(Staging, SourceMayChangeAfterAnUploadToTheGpu) {
  std::string why;
  if (cuda_device_count(&why) == 0) GTEST_SKIP() << why;
  const CudaContextPtr cuda = make_cuda_context(0);
  upload_many(Device::kCuda, cuda_stream(*cuda));
}

TEST(Staging, ReadbackHasTheNumbersOfItsPlaceInTheStream) {
  std::string why;
  const bool gpu = cuda_device_count(&why) > 0;
  const CudaContextPtr cuda = gpu ? make_cuda_context(0) : nullptr;
  void* stream = gpu ? cuda_stream(*cuda) : nullptr;
  const Device device = gpu ? Device::kCuda : Device::kCpu;
  const OwnedTensor a({1}, DType::kF64, device), b({1}, DType::kF64, device);
  const OwnedTensor host({1}, DType::kF64, Device::kCpu);
  *host.view.as<double>() = 2.5;
  copy_bytes(a, host, stream);
  Readback readback(2, device);
  EXPECT_TRUE(readback.arrived());
  const Tensor both[] = {a, b};
  readback.request(both, stream);
  zero_bytes(a, stream);  // after the request: not seen by it
  EXPECT_EQ(readback.value(0), 2.5);
  EXPECT_EQ(readback.value(1), 0);
  EXPECT_TRUE(readback.arrived());
}

TEST(Staging, TheClockOfAReadbackCountsFromTheRequestBeforeOrItsStart) {
  std::string why;
  const bool gpu = cuda_device_count(&why) > 0;
  const CudaContextPtr cuda = gpu ? make_cuda_context(0) : nullptr;
  void* stream = gpu ? cuda_stream(*cuda) : nullptr;
  const OwnedTensor a({1}, DType::kF64, gpu ? Device::kCuda : Device::kCpu);
  const Tensor numbers[] = {a};
  Readback readback(1, a.view.device);
  const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(40)); };
  readback.start_clock(stream);
  nap();
  readback.request(numbers, stream);
  EXPECT_GE(readback.seconds(), 0.035);
  nap();
  nap();
  readback.request(numbers, stream);
  EXPECT_GE(readback.seconds(), 0.07);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  readback.start_clock(stream);
  readback.request(numbers, stream);
  EXPECT_LT(readback.seconds(), 0.3);
}

TEST(Staging, UploadOfAnotherSizeIsRefused) {
  UploadRing ring(Device::kCpu);
  const OwnedTensor t({3}, DType::kI32, Device::kCpu);
  const std::vector<std::byte> two(2);
  EXPECT_THROW(ring.upload(t, two, nullptr), Error);
}

}  // namespace
}  // namespace glmtune
