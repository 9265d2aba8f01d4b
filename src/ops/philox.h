#pragma once
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): random
// bits as a function of a counter and a key, the same on every device.
#include <cstdint>

#ifdef __CUDACC__
#define GLMTUNE_HOST_DEVICE __host__ __device__
#else
#define GLMTUNE_HOST_DEVICE
#endif

namespace glmtune::ops {

struct Philox {
  std::uint32_t word[4];
};

GLMTUNE_HOST_DEVICE inline Philox philox(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  std::uint32_t c0 = static_cast<std::uint32_t>(low), c1 = static_cast<std::uint32_t>(low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(high), c3 = static_cast<std::uint32_t>(high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c0, b = std::uint64_t{0xCD9E8D57u} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(b);
    c3 = static_cast<std::uint32_t>(a);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The 16 bits that stochastic rounding adds for one element of one update: elements count through
// all items of the update, eight to a Philox block.
GLMTUNE_HOST_DEVICE inline std::uint32_t rounding_bits(std::uint64_t seed, std::uint64_t step,
                                                       std::uint64_t element) {
  const Philox p = philox(seed, element / 8, step);
  const unsigned i = static_cast<unsigned>(element % 8);
  return (p.word[i / 2] >> (i % 2 * 16)) & 0xffffu;
}

}  // namespace glmtune::ops
