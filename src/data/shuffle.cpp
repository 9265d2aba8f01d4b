#include "data/shuffle.h"

#include <numeric>
#include <utility>

namespace glmtune::data {

std::uint64_t SplitMix::next() {
  state_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::uint64_t SplitMix::below(std::uint64_t n) {
  // The lowest 2^64 mod n values would make some results more frequent.
  const std::uint64_t reject = (0 - n) % n;
  std::uint64_t x = next();
  while (x < reject) x = next();
  return x % n;
}

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  // Passing the seed through the generator once keeps neighbouring seeds and streams apart.
  SplitMix random(SplitMix(seed).next() ^ (stream * 0xd1342543de82ef95ULL));
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(i))]);
  }
  return order;
}

}  // namespace glmtune::data
