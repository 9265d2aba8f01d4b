#include "support/op_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/cat.h"
#include "support/gradcheck.h"
#include "tensor/memory_backend.h"

namespace glmtune::test {
namespace {

void run_steps(const Program& program, Context& ctx, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) program.steps[i].run(ctx);
}

// Scratch the steps ask for, from a dry run; a page more, so that its end can be watched.
std::size_t scratch_of(const Program& program, Device target) {
  Arena saved(std::size_t{1} << 40, Device::kMeta), scratch(std::size_t{1} << 40, Device::kMeta);
  Context ctx{.device = Device::kMeta, .target = target, .saved = &saved, .scratch = &scratch};
  run_steps(program, ctx, program.steps.size());
  return scratch.peak() + 4096;
}

bool is_integer(DType t) {
  return t != DType::kF64 && t != DType::kF32 && t != DType::kBF16;
}

std::string where(const OpCase& c, const Operand& o) {
  return cat(c.name, ", ", o.name, " ", o.host.shape_string(), ": ");
}

// Compares all that was written, operand by operand; both sides are built by the same case.
std::string compare_outputs(const OpCase& c, Operands& got, Operands& want, DType dtype) {
  std::string problems;
  for (const Operand& g : got.all()) {
    // A remainder means something only with its parameter, and exists beside BF16 only.
    if (g.role == Role::kInput || g.host.dtype == DType::kU16) continue;
    const Operand& w = want[g.name];
    const Difference d = compare(g.host, w.host);
    const DType storage = g.host.dtype;
    // A wide output of BF16 operands is still made of products of BF16 numbers in float.
    const double limit =
        is_integer(storage)
            ? 0
            : c.tolerance_factor *
                  tolerance(storage == DType::kF64 || c.rounds_between ? dtype : storage,
                            c.sum_length);
    if (!d.finite || d.rel_l2 > limit)
      problems += cat(where(c, g), describe(d), ", limit ", limit, "\n");
  }
  return problems;
}

}  // namespace

TestContext::TestContext(Device device, std::size_t scratch_bytes, std::size_t saved_bytes)
    : cuda_(device == Device::kCuda ? make_cuda_context(0) : nullptr),
      saved_(saved_bytes, device),
      scratch_(scratch_bytes, device) {
  if (cuda_ != nullptr) {
    ctx.cuda = cuda_.get();
    ctx.stream = cuda_stream(*cuda_);
  }
  ctx.device = ctx.target = device;
  ctx.saved = &saved_;
  ctx.scratch = &scratch_;
  if (device != Device::kCpu) return;
  for (Arena* arena : {&saved_, &scratch_}) {
    if (arena->capacity() == 0) continue;
    const std::size_t whole = arena->capacity() / 256 * 256;
    const Tensor all = arena->make({static_cast<std::int64_t>(whole)}, DType::kU8);
    std::memset(all.data, 0xff, whole);
    arena->release(0);
    arena->reset_peak();
  }
}

TestContext::~TestContext() = default;

void TestContext::synchronize() {
  if (cuda_ != nullptr) cuda_synchronize(*cuda_);
}

bool cuda_device_present() {
  return kHasCuda && cuda_memory::available();
}

std::string check_gradients(const OpCase& c, double limit) {
  Operands o({});
  const Program program = c.build(o);
  if (program.gradients.empty()) return "";
  TestContext test(Device::kCpu, scratch_of(program, Device::kCpu));
  const auto forward = static_cast<std::size_t>(program.forward_steps);

  std::vector<std::vector<double>> cotangents;
  for (const auto& [tensor, cotangent] : program.seeds)
    cotangents.push_back(values_of(o[cotangent].host));
  const auto loss = [&] {
    o.reset();
    run_steps(program, test.ctx, forward);
    long double sum = 0;
    for (std::size_t s = 0; s < program.seeds.size(); ++s) {
      const std::vector<double> y = values_of(o[program.seeds[s].first].host);
      for (std::size_t i = 0; i < y.size(); ++i)
        sum += static_cast<long double>(y[i]) * static_cast<long double>(cotangents[s][i]);
    }
    return static_cast<double>(sum);
  };

  std::vector<std::vector<double>> analytic;
  std::vector<std::vector<double>> before;
  for (const auto& [input, gradient] : program.gradients)
    before.push_back(o[gradient].role == Role::kAdds ? values_of(o[gradient].host)
                                                     : std::vector<double>{});
  run_steps(program, test.ctx, program.steps.size());
  for (std::size_t g = 0; g < program.gradients.size(); ++g) {
    analytic.push_back(values_of(o[program.gradients[g].second].host));
    for (std::size_t i = 0; i < before[g].size(); ++i) analytic[g][i] -= before[g][i];
  }

  std::string problems;
  for (std::size_t g = 0; g < program.gradients.size(); ++g) {
    const auto& [input, gradient] = program.gradients[g];
    std::vector<double> numeric(analytic[g].size());
    for (std::size_t i = 0; i < numeric.size(); ++i)
      numeric[i] = difference([&](double offset) {
        const auto element = static_cast<std::int64_t>(i);
        o.nudge(input, element, offset);
        const double value = loss();
        o.nudge(input, element, -offset);
        return value;
      });
    const Difference d = compare(analytic[g], numeric);
    if (!d.finite || d.rel_l2 > limit)
      problems += cat(c.name, ", gradient of ", input, ": ", describe(d), ", limit ", limit, "\n");
  }
  return problems;
}

std::string check_outputs(const OpCase& c, DType dtype, std::int64_t pad, Device device) {
  Operands o({.device = device, .real = dtype, .values = dtype, .pad = pad});
  const Program program = c.build(o);
  TestContext test(device, scratch_of(program, device));
  std::vector<std::vector<std::byte>> first;
  std::string problems;
  for (int round = 0; round < 2; ++round) {
    o.reset();
    run_steps(program, test.ctx, program.steps.size());
    test.synchronize();
    o.read_back();
    problems += o.damage();
    for (std::size_t i = 0; i < o.all().size(); ++i) {
      const Operand& operand = o.all()[i];
      const std::byte* p = operand.memory.data();
      std::vector<std::byte> bytes(p, p + operand.memory.size());
      if (round == 0) {
        first.push_back(std::move(bytes));
        if (operand.role == Role::kInput || is_integer(operand.host.dtype)) continue;
        for (const double x : values_of(operand.host))
          if (std::isnan(x)) {
            problems += where(c, operand) + "NaN: an element was not written, or a gap was read\n";
            break;
          }
      } else if (bytes != first[i]) {
        problems += where(c, operand) + "a second run gave other bits\n";
      }
    }
  }
  if (device == Device::kCpu) {  // beyond the declared workspace nothing may have changed
    Arena& scratch = *test.ctx.scratch;
    const std::size_t used = scratch.peak(), rest = (scratch.capacity() - used) / 256 * 256;
    scratch.release(used);
    const Tensor tail = scratch.make({static_cast<std::int64_t>(rest)}, DType::kU8);
    const auto* bytes = tail.as<std::uint8_t>();
    // All bytes are equal to the first, which is as it was.
    if (rest > 0 && (bytes[0] != 0xff || std::memcmp(bytes, bytes + 1, rest - 1) != 0))
      problems += cat(c.name, ": wrote beyond its workspace of ", used, " bytes\n");
  }
  return problems;
}

std::string check_precision(const OpCase& c, DType dtype) {
  Operands got({.real = dtype, .values = dtype});
  Operands want({.real = DType::kF64, .values = dtype});
  const Program low = c.build(got);
  const Program high = c.build(want);
  TestContext test(Device::kCpu,
                   std::max(scratch_of(low, Device::kCpu), scratch_of(high, Device::kCpu)));
  run_steps(low, test.ctx, low.steps.size());
  run_steps(high, test.ctx, high.steps.size());
  return compare_outputs(c, got, want, dtype);
}

std::string check_cuda(const OpCase& c, DType dtype, std::int64_t pad) {
  if (!cuda_device_present()) fail("check_cuda: no CUDA device");
  Operands want({.real = dtype, .values = dtype, .pad = pad});
  Operands got({.device = Device::kCuda, .real = dtype, .values = dtype, .pad = pad});
  const Program host = c.build(want);
  const Program device = c.build(got);
  TestContext cpu(Device::kCpu, scratch_of(host, Device::kCpu));
  TestContext cuda(Device::kCuda, scratch_of(device, Device::kCuda));
  run_steps(host, cpu.ctx, host.steps.size());
  run_steps(device, cuda.ctx, device.steps.size());
  cuda.synchronize();
  got.read_back();
  return compare_outputs(c, got, want, dtype) + got.damage();
}

}  // namespace glmtune::test
