#pragma once
// Seeded permutations that are the same on every machine (std::shuffle is not).
#include <cstdint>
#include <vector>

namespace glmtune::data {

// splitmix64 (Steele, Lea, Flood 2014): a 64-bit counter-based generator.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::uint64_t below(std::uint64_t n);  // uniform in [0, n), without bias

 private:
  std::uint64_t state_;
};

// A permutation of 0..n-1 (Fisher-Yates); one stream of numbers per (seed, stream).
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::uint64_t stream);

}  // namespace glmtune::data
