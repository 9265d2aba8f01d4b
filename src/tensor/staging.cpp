#include "tensor/staging.h"

#include <bit>
#include <chrono>
#include <cstring>

#include "base/cat.h"
#include "tensor/memory_backend.h"

namespace glmtune {

PinnedBuffer::PinnedBuffer(std::size_t bytes, Device device) : device_(device) {
  resize(bytes);
}

PinnedBuffer::~PinnedBuffer() {
  release();
}

void PinnedBuffer::release() noexcept {
  if (pinned_ != nullptr) cuda_memory::release_pinned(pinned_);
  pinned_ = nullptr;
}

void PinnedBuffer::resize(std::size_t bytes) {
  if (bytes == size_) return;
  release();
  size_ = 0;
  if (bytes > 0 && device_ == Device::kCuda)
    pinned_ = static_cast<std::byte*>(cuda_memory::allocate_pinned(bytes));
  else
    plain_ = Buffer(bytes, device_);
  size_ = bytes;
}

StreamMark::StreamMark(Device device)
    : event_(device == Device::kCuda ? cuda_memory::make_event() : nullptr) {}

StreamMark::~StreamMark() {
  if (event_ != nullptr) cuda_memory::release_event(event_);
}

void StreamMark::record(void* stream) {
  if (event_ != nullptr) return cuda_memory::record(event_, stream);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  recorded_ = std::chrono::duration<double>(now).count();
}

bool StreamMark::reached() const {
  return event_ == nullptr || cuda_memory::reached(event_);
}

void StreamMark::wait() const {
  if (event_ != nullptr) cuda_memory::wait(event_);
}

double StreamMark::seconds_since(const StreamMark& earlier) const {
  if (event_ == nullptr) return recorded_ - earlier.recorded_;
  wait();
  return cuda_memory::seconds_between(earlier.event_, event_);
}

UploadRing::UploadRing(Device device)
    : slots_{Slot(device), Slot(device), Slot(device), Slot(device)} {}

void UploadRing::upload(Tensor dst, std::span<const std::byte> src, void* stream) {
  if (!dst.contiguous() || dst.bytes() != src.size())
    fail(cat("upload: ", src.size(), " bytes into ", dst.shape_string()));
  if (dst.device == Device::kMeta || src.empty()) return;
  if (dst.device == Device::kCpu) {
    std::memcpy(dst.data, src.data(), src.size());
    return;
  }
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  slot.sent.wait();
  if (slot.buffer.size() < src.size()) slot.buffer.resize(std::bit_ceil(src.size()));
  std::memcpy(slot.buffer.data(), src.data(), src.size());
  cuda_memory::copy(dst.data, slot.buffer.data(), src.size(), stream);
  slot.sent.record(stream);
}

Readback::Readback(std::size_t count, Device device)
    : values_(count * sizeof(double), device), marks_{StreamMark(device), StreamMark(device)} {}

void Readback::request(std::span<const Tensor> numbers, void* stream) {
  check(numbers.size() * sizeof(double) == values_.size(), "a readback of another size");
  auto* to = reinterpret_cast<double*>(values_.data());
  for (const Tensor& t : numbers) {
    check(t.dtype == DType::kF64 && t.count() == 1, "a readback takes F64 [1] tensors");
    if (t.device == Device::kCuda)
      cuda_memory::copy(to++, t.data, sizeof(double), stream);
    else if (t.device == Device::kCpu)
      *to++ = *t.as<double>();
  }
  last_ = 1 - last_;
  marks_[last_].record(stream);
}

double Readback::value(std::size_t i) const {
  marks_[last_].wait();
  return reinterpret_cast<const double*>(values_.data())[i];
}

}  // namespace glmtune
