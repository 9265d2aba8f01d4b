#pragma once
// Operands of a test or benchmark: random contents, odd strides, guard bytes, poisoned outputs.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace glmtune::test {

// Normal numbers from a counter (SplitMix64 and Box-Muller): the same on every machine and device.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  double uniform();  // (0, 1)
  double normal();
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(uniform() * double(n)); }

 private:
  std::uint64_t state_;
};

// Rounds to what `t` can hold.
double round_to(DType t, double x);

enum class Role : std::uint8_t {
  kInput,    // must not change
  kOutput,   // poisoned (all bits set: NaN, −1) before every run
  kAdds,     // the op adds to it: a gradient is "after − before"
  kInPlace,  // read and overwritten
};

enum class Layout : std::uint8_t { kPadded, kDense };

struct Operand {
  std::string name;
  Role role;
  Tensor host;                     // view into `memory`: the last values read back
  Tensor view;                     // what the op gets; equal to `host` on the CPU
  std::vector<std::byte> initial;  // whole allocation, guards and gaps included, before a run
  Buffer memory, device_memory;
};

// Named operands of one op, built by its case. Real operands have the case's storage type, or its
// wide type; all random values are exact in `values`, so that a run in double can take the very
// inputs of a run in BF16. With pad > 0 the rows of tensors of rank ≥ 2 are `pad` elements apart.
// Guards (256 bytes on either side) and gaps are all ones: NaN for who reads, noticed if written.
class Operands {
 public:
  struct Settings {
    Device device = Device::kCpu;
    DType real = DType::kF64;
    DType values = DType::kF64;
    std::int64_t pad = 0;
    std::uint64_t seed = 1;
  };
  explicit Operands(const Settings& settings) : settings_(settings), random_(settings.seed) {}

  DType real() const { return settings_.real; }
  DType wide() const { return glmtune::wide(settings_.real); }
  Device device() const { return settings_.device; }
  Random& random() { return random_; }

  // Normal values times `scale`, of the storage type (or `dtype`).
  Tensor input(std::string_view name, Shape shape, double scale = 1);
  Tensor input(std::string_view name, Shape shape, DType dtype, double scale = 1);
  Tensor output(std::string_view name, Shape shape);
  Tensor output(std::string_view name, Shape shape, DType dtype);
  Tensor adds(std::string_view name, Shape shape, DType dtype, double scale = 1);
  Tensor in_place(std::string_view name, Shape shape, DType dtype, double scale = 1);
  // Given integers (I32, I64, U16, ...), dense.
  Tensor integers(std::string_view name, Shape shape, DType dtype,
                  const std::vector<std::int64_t>& values, Role role = Role::kInput);
  // Anything: `next` gives the elements in row-major order.
  Tensor make(std::string_view name, Role role, Shape shape, DType dtype, Layout layout,
              const std::function<double()>& next);

  Operand& operator[](std::string_view name);
  std::vector<Operand>& all() { return operands_; }
  void reset();          // initial contents everywhere, outputs poisoned
  void read_back();      // device memory → `host` views
  std::string damage();  // "" or which operand was changed where it must not (after read_back)
  // Adds to one element (row-major number) of an operand's initial contents; F64 only.
  void nudge(std::string_view name, std::int64_t element, double by);

 private:
  Settings settings_;
  Random random_;
  std::vector<Operand> operands_;
};

}  // namespace glmtune::test
