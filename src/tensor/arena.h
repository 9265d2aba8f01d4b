#pragma once
// Stack allocation. Two arenas serve a whole training step: `saved` (what the backward needs) and
// `scratch`; running the same step on the meta device gives their exact peaks beforehand.
#include <cstddef>

#include "tensor/tensor.h"

namespace glmtune {

class Arena {
 public:
  // Takes `capacity` bytes of `device`. On the meta device nothing is allocated and only the peak
  // counts. Every allocation is rounded up to 256 bytes.
  Arena(std::size_t capacity, Device device);

  // Uninitialised memory; throws when the arena is full (a plan that was too small is a bug).
  Tensor make(Shape shape, DType dtype);

  std::size_t mark() const { return top_; }
  void release(std::size_t mark) { top_ = mark; }
  std::size_t peak() const { return peak_; }
  std::size_t capacity() const { return capacity_; }
  void reset_peak() { peak_ = top_; }

 private:
  Buffer buffer_;
  std::size_t capacity_;
  std::size_t top_ = 0;
  std::size_t peak_ = 0;
};

// Gives back everything allocated from the arena since the scope began.
class Scope {
 public:
  explicit Scope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { arena_.release(mark_); }

 private:
  Arena& arena_;
  std::size_t mark_;
};

}  // namespace glmtune
