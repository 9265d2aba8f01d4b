#include "tensor/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "cuda/device.h"

namespace glmtune {
namespace {

// Uploads of these sizes, from memory that changes right after each, behind `before`'s work in the
// stream. The targets are there beforehand: allocating memory may wait for the device.
template <class Before>
void upload_many(UploadRing& ring, const std::vector<std::int64_t>& sizes, Device device,
                 void* stream, Before&& before) {
  std::vector<OwnedTensor> targets;
  for (const std::int64_t n : sizes) targets.emplace_back(Shape{n}, DType::kI32, device);
  std::vector<std::int32_t> source;
  source.reserve(static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end())));
  before();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    source.resize(static_cast<std::size_t>(sizes[i]));
    std::iota(source.begin(), source.end(), static_cast<std::int32_t>(100'000'000 * i));
    ring.upload(targets[i], std::as_bytes(std::span(source)), stream);
    std::fill(source.begin(), source.end(), -1);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const OwnedTensor host({sizes[i]}, DType::kI32, Device::kCpu);
    copy_bytes(host, targets[i], stream);
    const auto* got = host.view.as<std::int32_t>();
    std::int64_t wrong = 0;
    for (std::int64_t k = 0; k < sizes[i]; ++k)
      wrong += got[k] != static_cast<std::int32_t>(100'000'000 * i) + k ? 1 : 0;
    EXPECT_EQ(wrong, 0) << "elements of upload " << i;
  }
}

constexpr auto kNothingBefore = [] {};
std::vector<std::int64_t> growing_sizes() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n <= 3 * static_cast<std::int64_t>(UploadRing::kSlots); ++n)
    sizes.push_back(1000 * n);
  return sizes;
}

TEST(Staging, SourceMayChangeAfterAnUpload) {
  UploadRing ring(Device::kCpu);
  upload_many(ring, growing_sizes(), Device::kCpu, nullptr, kNothingBefore);
}

TEST(Staging, SourceMayChangeAfterAnUploadToTheGpu) {
  std::string why;
  if (cuda_device_count(&why) == 0) GTEST_SKIP() << why;
  const CudaContextPtr cuda = make_cuda_context(0);
  UploadRing ring(Device::kCuda);
  upload_many(ring, growing_sizes(), Device::kCuda, cuda_stream(*cuda), kNothingBefore);
}

// The first uploads give every slot its memory; then no slot grows, which would wait for the
// device. What lies before the others in the stream takes tens of milliseconds: they are all made
// before the first copy begins, unless the ring waits for its slots.
TEST(Staging, ASlotIsNotFilledAgainBeforeItsCopyIsMade) {
  std::string why;
  if (cuda_device_count(&why) == 0) GTEST_SKIP() << why;
  const CudaContextPtr cuda = make_cuda_context(0);
  void* stream = cuda_stream(*cuda);
  const OwnedTensor large({std::int64_t{1} << 30}, DType::kU8, Device::kCuda);
  UploadRing ring(Device::kCuda);
  constexpr std::int64_t kSlots = UploadRing::kSlots;
  upload_many(ring, std::vector<std::int64_t>(kSlots, 10'000), Device::kCuda, stream,
              kNothingBefore);
  upload_many(ring, std::vector<std::int64_t>(3 * kSlots, 10'000), Device::kCuda, stream, [&] {
    for (int i = 0; i < 100; ++i) zero_bytes(large, stream);
  });
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
