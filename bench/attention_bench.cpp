// Attention and indexer ops with the sizes of GLM-5 on a CUDA device, BF16, random operands:
//   attention_bench [causal|masked|sparse|index]...        default: all
// One line per op and shape: milliseconds and TFLOP/s of useful work (causal or selected pairs;
// attention backward 2.5 times the forward), first "burst" (after half a second of rest), then
// "sustained" (after a second of the same work, where the card's power limit holds).
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/cat.h"
#include "op_bench.h"
#include "ops/attention.h"
#include "ops/indexer.h"

namespace {

using namespace glmtune;
using bench::OpBench;

constexpr std::int64_t kHeads = 64;

void causal(OpBench& bench, std::int64_t B, std::int64_t S, bool masked) {
  const std::int64_t T = B * S;
  std::vector<std::int32_t> bounds;
  for (std::int64_t i = 0; i < B; ++i)
    bounds.insert(bounds.end(),
                  {static_cast<std::int32_t>(i * S), static_cast<std::int32_t>((i + 1) * S)});
  const OwnedTensor on_device = bench.upload({B, 2}, DType::kI32, bounds);
  std::mt19937 rng(2);
  std::vector<std::uint32_t> words(masked ? static_cast<std::size_t>(T * (S / 32)) : 0);
  for (std::uint32_t& w : words) w = static_cast<std::uint32_t>(rng());
  const OwnedTensor mask = masked ? bench.upload({T, S / 32}, DType::kU32, words) : OwnedTensor();
  const auto q = bench.normal({T, kHeads, 256}), k_nope = bench.normal({T, kHeads, 192}),
             k_rope = bench.normal({T, 64}), v = bench.normal({T, kHeads, 256}),
             dout = bench.normal({T, kHeads, 256});
  const auto out = bench.zeros({T, kHeads, 256}, DType::kBF16),
             dq = bench.zeros({T, kHeads, 256}, DType::kBF16),
             dk_nope = bench.zeros({T, kHeads, 192}, DType::kBF16),
             dk_rope = bench.zeros({T, 64}, DType::kBF16),
             dv = bench.zeros({T, kHeads, 256}, DType::kBF16),
             lse = bench.zeros({kHeads, T}, DType::kF32);
  const ops::Documents documents{
      .bounds = on_device, .host = bounds.data(), .count = B, .max_length = S};
  const double pairs = static_cast<double>(T * kHeads) * static_cast<double>(S + 1) / 2;
  const std::string name = cat(masked ? "masked " : "causal ", B, "x", S);
  bench.line(name + " forward", pairs * 1024,
             ops::CausalAttention{.out = out,
                                  .lse = lse,
                                  .q = q,
                                  .k_nope = k_nope,
                                  .k_rope = k_rope,
                                  .v = v,
                                  .mask = mask,
                                  .documents = documents,
                                  .scale = 1.0 / 16});
  bench.line(name + " backward", pairs * 2560,
             ops::CausalAttentionBackward{.dq = dq,
                                          .dk_nope = dk_nope,
                                          .dk_rope = dk_rope,
                                          .dv = dv,
                                          .dout = dout,
                                          .out = out,
                                          .lse = lse,
                                          .q = q,
                                          .k_nope = k_nope,
                                          .k_rope = k_rope,
                                          .v = v,
                                          .mask = mask,
                                          .documents = documents,
                                          .scale = 1.0 / 16});
}

// The last T queries of a document of S rows; K keys spread evenly at random over what they see.
void sparse(OpBench& bench, std::int64_t T, std::int64_t S, std::int64_t K) {
  std::mt19937 rng(3);
  std::vector<std::int32_t> indices(static_cast<std::size_t>(T * K), -1), counts;
  double pairs = 0;
  for (std::int64_t t = 0; t < T; ++t) {
    const std::int64_t seen = S - T + t + 1, n = std::min(seen, K);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t low = i * seen / n, high = (i + 1) * seen / n;
      indices[static_cast<std::size_t>(t * K + i)] =
          static_cast<std::int32_t>(low + static_cast<std::int64_t>(rng()) % (high - low));
    }
    counts.push_back(static_cast<std::int32_t>(n));
    pairs += static_cast<double>(n);
  }
  const auto list = bench.upload({T, K}, DType::kI32, indices);
  const auto count = bench.upload({T}, DType::kI32, counts);
  const auto q_latent = bench.normal({T, kHeads, 512}), q_rope = bench.normal({T, kHeads, 64}),
             latent = bench.normal({S, 512}), k_rope = bench.normal({S, 64}),
             dout = bench.normal({T, kHeads, 512});
  const auto out = bench.zeros({T, kHeads, 512}, DType::kBF16),
             dq_latent = bench.zeros({T, kHeads, 512}, DType::kBF16),
             dq_rope = bench.zeros({T, kHeads, 64}, DType::kBF16),
             dlatent = bench.zeros({S, 512}, DType::kBF16),
             dk_rope = bench.zeros({S, 64}, DType::kBF16),
             lse = bench.zeros({kHeads, T}, DType::kF32);
  const std::string name = cat("sparse ", T, " of ", S);
  bench.line(name + " forward", pairs * 139264,
             ops::SparseMla{.out_latent = out,
                            .lse = lse,
                            .q_latent = q_latent,
                            .q_rope = q_rope,
                            .latent = latent,
                            .k_rope = k_rope,
                            .indices = list,
                            .counts = count,
                            .scale = 1.0 / 16});
  bench.line(name + " backward", pairs * 352256,
             ops::SparseMlaBackward{.dq_latent = dq_latent,
                                    .dq_rope = dq_rope,
                                    .dlatent = dlatent,
                                    .dk_rope = dk_rope,
                                    .dout_latent = dout,
                                    .out_latent = out,
                                    .lse = lse,
                                    .q_latent = q_latent,
                                    .q_rope = q_rope,
                                    .latent = latent,
                                    .k_rope = k_rope,
                                    .indices = list,
                                    .counts = count,
                                    .scale = 1.0 / 16});
}

void index(OpBench& bench, std::int64_t T, std::int64_t S) {
  std::vector<float> weights(static_cast<std::size_t>(T * 32));
  std::mt19937 rng(4);
  std::normal_distribution<float> normal;
  for (float& w : weights) w = normal(rng);
  const auto q = bench.normal({T, 32, 128}), k = bench.normal({S, 128});
  const auto w = bench.upload({T, 32}, DType::kF32, weights);
  const auto scores = bench.zeros({T, S}, DType::kF32),
             mask = bench.zeros({T, S / 32}, DType::kU32),
             indices = bench.zeros({T, 2048}, DType::kI32), counts = bench.zeros({T}, DType::kI32);
  const double pairs = static_cast<double>(T) * (static_cast<double>(S - T) + (T + 1) / 2.0);
  const std::string name = cat(" ", T, " of ", S);
  bench.line("index scores" + name, pairs * 8192,
             ops::IndexScores{.scores = scores,
                              .q = q,
                              .k = k,
                              .weights = w,
                              .scale = 0.08838834764831845,
                              .weight_scale = 0.17677669529663687,
                              .query_begin = S - T});
  bench.line("top-k" + name, 0,
             ops::TopkSelect{.mask = mask,
                             .indices = indices,
                             .counts = counts,
                             .scores = scores,
                             .k = 2048,
                             .query_begin = S - T});
}

int run_bench(const std::vector<std::string>& names) {
  const auto wanted = [&](const char* name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  OpBench bench;
  const CudaDeviceInfo device = cuda_device_info(0);
  std::printf("%s\n%-36s %-26s   %s\n", device.name.c_str(), "op", "burst", "sustained");
  if (wanted("causal")) {
    causal(bench, 4, 4096, false);
    causal(bench, 16, 1024, false);
    causal(bench, 32, 512, false);
    causal(bench, 1, 4096, false);
  }
  if (wanted("masked")) causal(bench, 4, 4096, true);
  if (wanted("sparse")) sparse(bench, 16384, 32768, 2048);
  if (wanted("index")) index(bench, 16384, 32768);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::report_errors([&] { return run_bench({argv + 1, argv + argc}); });
}
