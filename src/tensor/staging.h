#pragma once
// Traffic between host and device that nobody waits for: page-locked memory, marks in a stream's
// work, a ring of buffers on the way up and a few numbers on the way down. Without a GPU the same
// classes copy at once.
#include <array>
#include <cstddef>
#include <span>

#include "tensor/tensor.h"

namespace glmtune {

// Host memory that `device` reads and writes by itself: page-locked for CUDA, plain otherwise.
class PinnedBuffer {
 public:
  PinnedBuffer(std::size_t bytes, Device device);
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer();

  std::byte* data() const { return pinned_ != nullptr ? pinned_ : plain_.data(); }
  std::size_t size() const { return size_; }
  void resize(std::size_t bytes);  // what it held is lost

 private:
  void release() noexcept;

  std::size_t size_ = 0;
  Device device_;
  std::byte* pinned_ = nullptr;
  Buffer plain_;
};

// A place in a stream's work.
class StreamMark {
 public:
  explicit StreamMark(Device device);
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  ~StreamMark();

  void record(void* stream);  // everything queued so far comes before the mark
  bool reached() const;       // true while nothing was recorded, and where work is done at once
  void wait() const;
  // Seconds of the device from a mark recorded before to this one; waits for this one.
  double seconds_since(const StreamMark& earlier) const;

 private:
  void* event_ = nullptr;  // null: no GPU
  double recorded_ = 0;    // host seconds, without a GPU
};

// Copies host memory to the device without waiting for it.
class UploadRing {
 public:
  static constexpr std::size_t kSlots = 4;

  explicit UploadRing(Device device);
  // dst = src, in the stream's order; src may change when the call returns. Waits only while all
  // slots are still under way, and for the whole device where a slot is too small: it then grows to
  // the next power of two, a few times in a run. dst is contiguous and as large as src.
  void upload(Tensor dst, std::span<const std::byte> src, void* stream);

 private:
  struct Slot {
    explicit Slot(Device device) : buffer(0, device), sent(device) {}
    PinnedBuffer buffer;
    StreamMark sent;
  };
  std::array<Slot, kSlots> slots_;
  std::size_t next_ = 0;
};

// Numbers of the device (F64 [1] each) as they are at one place of the stream's work.
class Readback {
 public:
  Readback(std::size_t count, Device device);
  // One request at a time: the values of the one before are overwritten.
  void request(std::span<const Tensor> numbers, void* stream);
  bool arrived() const { return marks_[last_].reached(); }
  // Waits until they have arrived.
  double value(std::size_t i) const;

  // A clock in the stream's work: seconds() is the time from the numbers requested before, or from
  // start_clock() where that came later, to the last ones. Waits until they have arrived.
  void start_clock(void* stream) { marks_[last_].record(stream); }
  double seconds() const { return marks_[last_].seconds_since(marks_[1 - last_]); }

 private:
  PinnedBuffer values_;
  std::array<StreamMark, 2> marks_;
  std::size_t last_ = 0;
};

}  // namespace glmtune
