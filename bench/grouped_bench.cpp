// Grouped products with the sizes of GLM-5's experts on a CUDA device, BF16, random operands:
//   grouped_bench [rows=131072] [experts=4|256] [only=WORDS]     default: both, all products
// 4 experts with as many rows each; 256 experts of which one is drawn for every row. One line per
// product whose name has WORDS in it: milliseconds and TFLOP/s, burst and sustained (bench.h).
// Weight gradients are added to, then written.
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "op_bench.h"
#include "ops/matmul.h"

namespace {

using namespace glmtune;
using bench::OpBench;

std::vector<std::int32_t> offsets_of(std::int64_t experts, std::int64_t rows, bool even) {
  const auto count = static_cast<std::size_t>(experts);
  std::vector<std::int32_t> offsets(count + 1);
  if (even) {
    for (std::size_t e = 0; e <= count; ++e)
      offsets[e] = static_cast<std::int32_t>(rows * static_cast<std::int64_t>(e) / experts);
    return offsets;
  }
  std::mt19937 rng(3);
  std::uniform_int_distribution<std::size_t> expert(1, count);
  for (std::int64_t r = 0; r < rows; ++r) ++offsets[expert(rng)];
  for (std::size_t e = 0; e < count; ++e) offsets[e + 1] += offsets[e];
  return offsets;
}

// rows x k times k x n: gate and up projections (FC1) or the down projection (FC2).
void products(OpBench& bench, const std::string& name, const Tensor& offsets, std::int64_t rows,
              std::int64_t n, std::int64_t k, const std::string& only) {
  const std::int64_t experts = offsets.size(0) - 1;
  const double flop = 2.0 * static_cast<double>(rows * n) * static_cast<double>(k);
  const auto line = [&](const std::string& what, const auto& op) {
    const std::string full = cat(name, " ", what);
    if (full.find(only) != std::string::npos) bench.line(full, flop, op);
  };
  const auto x = bench.normal({rows, k}), dy = bench.normal({rows, n});
  {
    const auto w = bench.normal({experts, n, k});
    const auto y = bench.zeros({rows, n}, DType::kBF16), dx = bench.zeros({rows, k}, DType::kBF16);
    line("forward",
         ops::GroupedMatmul{.out = y, .a = x, .b = w, .offsets = offsets, .trans_b = true});
    line("input gradient", ops::GroupedMatmul{.out = dx, .a = dy, .b = w, .offsets = offsets});
  }
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto dw = bench.zeros({experts, n, k}, dtype);
    for (const bool first : {false, true})
      line(cat("weight gradient ", name_of(dtype), first ? " written" : ""),
           ops::GroupedMatmulWgrad{
               .dw = dw, .dy = dy, .x = x, .offsets = offsets, .overwrite = first});
  }
}

int run_bench(const bench::Arguments& arguments) {
  const std::int64_t rows = arguments.number("rows"), wanted = arguments.number("experts");
  OpBench bench;
  std::printf("%-36s %29s   %29s\n", "", "burst", "sustained");
  for (const std::int64_t experts : {4, 256}) {
    if (wanted != 0 && wanted != experts) continue;
    auto values = offsets_of(experts, rows, experts == 4);
    const auto offsets = bench.upload({experts + 1}, DType::kI32, values);
    const std::string name = std::to_string(experts) + (experts == 4 ? " even" : " ragged");
    products(bench, name + " FC1", offsets, rows, 4096, 6144, arguments.text("only"));
    products(bench, name + " FC2", offsets, rows, 6144, 2048, arguments.text("only"));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::report_errors([&] {
    return run_bench({argc, argv, 1, {{"rows", "131072"}, {"experts", "0"}, {"only", ""}}});
  });
}
