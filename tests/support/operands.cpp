#include "support/operands.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/cat.h"

namespace glmtune::test {
namespace {

constexpr std::size_t kGuard = 256;
constexpr std::byte kPoison{0xff};

bool is_real(DType t) {
  return t == DType::kF64 || t == DType::kF32 || t == DType::kBF16;
}

void store(void* p, DType t, double x) {
  switch (t) {
    case DType::kF64:
      *static_cast<double*>(p) = x;
      break;
    case DType::kF32:
      *static_cast<float*>(p) = static_cast<float>(x);
      break;
    case DType::kBF16:
      *static_cast<BFloat16*>(p) = BFloat16(x);
      break;
    case DType::kI64:
      *static_cast<std::int64_t*>(p) = static_cast<std::int64_t>(x);
      break;
    case DType::kI32:
      *static_cast<std::int32_t*>(p) = static_cast<std::int32_t>(x);
      break;
    case DType::kI16:
      *static_cast<std::int16_t*>(p) = static_cast<std::int16_t>(x);
      break;
    case DType::kU32:
      *static_cast<std::uint32_t*>(p) = static_cast<std::uint32_t>(x);
      break;
    case DType::kU16:
      *static_cast<std::uint16_t*>(p) = static_cast<std::uint16_t>(x);
      break;
    default:
      fail(cat("operands: cannot fill ", name_of(t)));
  }
}

// Calls f(byte offset inside the allocation) for every element of the view, row-major.
template <class F>
void for_each_element(const Tensor& t, const std::byte* base, F&& f) {
  const auto size = static_cast<std::int64_t>(size_of(t.dtype));
  const std::int64_t start = static_cast<const std::byte*>(t.data) - base;
  for (std::int64_t i = 0; i < t.count(); ++i) {
    std::int64_t rest = i, at = start;
    for (int d = t.rank - 1; d >= 0; --d) {
      at += rest % t.size(d) * t.stride(d) * size;
      rest /= t.size(d);
    }
    f(static_cast<std::size_t>(at));
  }
}

}  // namespace

std::uint64_t Random::bits() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double Random::uniform() {
  return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53;
}

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double round_to(DType t, double x) {
  if (t == DType::kF32) return static_cast<float>(x);
  if (t == DType::kBF16) return BFloat16(x);
  return x;
}

Tensor Operands::make(std::string_view name, Role role, Shape shape, DType dtype, Layout layout,
                      const std::function<double()>& next) {
  Operand o;
  o.name = name;
  o.role = role;
  Tensor t = Tensor::dense(nullptr, shape, dtype, Device::kCpu);
  if (layout == Layout::kPadded && t.rank >= 2) {
    std::int64_t stride = t.size(-1) + settings_.pad;
    for (int d = t.rank - 2; d >= 0; --d) {
      t.strides[static_cast<std::size_t>(d)] = stride;
      stride *= t.size(d);
    }
  }
  std::size_t elements = 1;
  for (int d = 0; d < t.rank; ++d)
    elements = std::max(elements, static_cast<std::size_t>(t.size(d) * t.stride(d)));
  const std::size_t bytes = 2 * kGuard + elements * size_of(dtype);

  o.memory = Buffer(bytes, Device::kCpu);
  std::memset(o.memory.data(), static_cast<int>(kPoison), bytes);
  t.data = o.memory.data() + kGuard;
  o.host = t;
  if (role != Role::kOutput)
    for_each_element(t, o.memory.data(),
                     [&](std::size_t at) { store(o.memory.data() + at, dtype, next()); });
  o.initial.assign(o.memory.data(), o.memory.data() + bytes);
  o.view = t;
  if (settings_.device == Device::kCuda) {
    o.device_memory = Buffer(bytes, Device::kCuda);
    o.view.data = o.device_memory.data() + kGuard;
    o.view.device = Device::kCuda;
    const auto n = static_cast<std::int64_t>(bytes);
    copy_bytes(Tensor::dense(o.device_memory.data(), {n}, DType::kU8, Device::kCuda),
               Tensor::dense(o.initial.data(), {n}, DType::kU8, Device::kCpu));
  }
  operands_.push_back(std::move(o));
  return operands_.back().view;
}

Tensor Operands::input(std::string_view name, Shape shape, double scale) {
  return input(name, shape, real(), scale);
}
Tensor Operands::input(std::string_view name, Shape shape, DType dtype, double scale) {
  return make(name, Role::kInput, shape, dtype, Layout::kPadded,
              [&] { return round_to(settings_.values, scale * random_.normal()); });
}
Tensor Operands::output(std::string_view name, Shape shape) {
  return output(name, shape, real());
}
Tensor Operands::output(std::string_view name, Shape shape, DType dtype) {
  const Layout layout = is_real(dtype) ? Layout::kPadded : Layout::kDense;
  return make(name, Role::kOutput, shape, dtype, layout, [] { return 0.0; });
}
Tensor Operands::adds(std::string_view name, Shape shape, DType dtype, double scale) {
  return make(name, Role::kAdds, shape, dtype, Layout::kPadded,
              [&] { return round_to(settings_.values, scale * random_.normal()); });
}
Tensor Operands::in_place(std::string_view name, Shape shape, DType dtype, double scale) {
  return make(name, Role::kInPlace, shape, dtype, Layout::kPadded,
              [&] { return round_to(settings_.values, scale * random_.normal()); });
}
Tensor Operands::integers(std::string_view name, Shape shape, DType dtype,
                          const std::vector<std::int64_t>& values, Role role) {
  std::size_t i = 0;
  return make(name, role, shape, dtype, Layout::kDense,
              [&] { return static_cast<double>(values.at(i++)); });
}

Operand& Operands::operator[](std::string_view name) {
  for (Operand& o : operands_)
    if (o.name == name) return o;
  fail(cat("no operand named ", name));
}

void Operands::reset() {
  for (Operand& o : operands_) {
    std::memcpy(o.memory.data(), o.initial.data(), o.initial.size());
    if (settings_.device != Device::kCuda) continue;
    const auto n = static_cast<std::int64_t>(o.initial.size());
    copy_bytes(Tensor::dense(o.device_memory.data(), {n}, DType::kU8, Device::kCuda),
               Tensor::dense(o.initial.data(), {n}, DType::kU8, Device::kCpu));
  }
}

void Operands::read_back() {
  if (settings_.device != Device::kCuda) return;
  for (Operand& o : operands_) {
    const auto n = static_cast<std::int64_t>(o.initial.size());
    copy_bytes(Tensor::dense(o.memory.data(), {n}, DType::kU8, Device::kCpu),
               Tensor::dense(o.device_memory.data(), {n}, DType::kU8, Device::kCuda));
  }
}

std::string Operands::damage() {
  for (Operand& o : operands_) {
    std::vector<bool> writable(o.initial.size(), false);
    if (o.role != Role::kInput)
      for_each_element(o.host, o.memory.data(), [&](std::size_t at) {
        for (std::size_t k = 0; k < size_of(o.host.dtype); ++k) writable[at + k] = true;
      });
    for (std::size_t i = 0; i < o.initial.size(); ++i)
      if (!writable[i] && o.memory.data()[i] != o.initial[i])
        return cat(o.name, " ", o.host.shape_string(), ": byte ",
                   static_cast<std::int64_t>(i) - static_cast<std::int64_t>(kGuard),
                   " was written but is no element of an output");
  }
  return "";
}

void Operands::nudge(std::string_view name, std::int64_t element, double by) {
  Operand& o = (*this)[name];
  check(o.host.dtype == DType::kF64, "nudge: the operand is not F64");
  std::int64_t i = 0;
  for_each_element(o.host, o.memory.data(), [&](std::size_t at) {
    if (i++ != element) return;
    double x;
    std::memcpy(&x, o.initial.data() + at, sizeof x);
    x += by;
    std::memcpy(o.initial.data() + at, &x, sizeof x);
  });
}

}  // namespace glmtune::test
