// Times every op case at the sizes of a layer: the fastest of the runs that fit into the time.
//   ops_bench [--filter TEXT] [--dtype F32|BF16|F64] [--cuda] [--seconds S] [--cpu-time]
// --cpu-time counts the seconds of this process instead of the clock's: with OMP_NUM_THREADS=1 the
// right figure on a machine that others use too.
#include <cstdio>
#include <ctime>
#include <string>

#include "bench.h"
#include "support/op_cases.h"

namespace {

using namespace glmtune;
using namespace glmtune::test;

struct Options {
  std::string filter;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  double seconds = 0.3;
  bool cpu_time = false;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&]() -> std::string {
      if (++i == argc) fail(arg + " needs a value");
      return argv[i];
    };
    if (arg == "--filter")
      o.filter = value();
    else if (arg == "--cuda")
      o.device = Device::kCuda;
    else if (arg == "--cpu-time")
      o.cpu_time = true;
    else if (arg == "--seconds")
      o.seconds = std::stod(value());
    else if (arg == "--dtype") {
      const std::string name = value();
      const auto dtype = dtype_from_name(name);
      if (!dtype) fail("unknown type " + name);
      o.dtype = *dtype;
    } else {
      fail(
          "unknown argument " + arg +
          "; ops_bench [--filter TEXT] [--dtype F32|BF16|F64] [--cuda] [--seconds S] [--cpu-time]");
    }
  }
  return o;
}

double now(bool cpu_time = false) {
  if (cpu_time) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return bench::seconds();
}

// Seconds of one run, the smallest of at least three.
double time_of(const Step& s, TestContext& test, const Options& options) {
  double best = 1e30;
  const double end = now() + options.seconds;
  for (int i = 0; i < 3 || now() < end; ++i) {
    test.synchronize();
    const double begin = now(options.cpu_time);
    s.run(test.ctx);
    test.synchronize();
    best = std::min(best, now(options.cpu_time) - begin);
  }
  return best;
}

void bench_cases(const Options& options) {
  std::printf("%-44s %-28s %10s %10s %9s\n", "case", "op", "ms", "GFLOP/s", "GB/s");
  for (const OpCase& c : all_op_cases(Sizes::kBench)) {
    if (c.name.find(options.filter) == std::string::npos) continue;
    Operands operands({.device = options.device, .real = options.dtype, .values = options.dtype});
    const Program program = c.build(operands);
    TestContext test(options.device, std::size_t{1} << 30);
    for (const Step& s : program.steps) s.run(test.ctx);  // later steps need earlier results
    for (const Step& s : program.steps) {
      const double t = time_of(s, test, options);
      const auto rate = [&](double amount) {
        char text[32] = "";
        if (amount > 0) std::snprintf(text, sizeof text, "%.1f", amount / t / 1e9);
        return std::string(text);
      };
      std::printf("%-44s %-28s %10.3f %10s %9s\n", c.name.c_str(), s.name.c_str(), t * 1e3,
                  rate(s.cost.flop).c_str(), rate(s.cost.bytes).c_str());
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::report_errors([&] {
    bench_cases(parse(argc, argv));
    return 0;
  });
}
