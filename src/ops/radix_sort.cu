// One pass per 8-bit digit, least significant first: a histogram per tile, prefix sums over the
// tiles, then every key to its place. Places follow from counts alone, so the sort is stable and
// gives the same bits each time.
#include "ops/kernel.cuh"
#include "ops/radix_sort.cuh"

namespace glmtune::ops {
namespace {

constexpr int kDigits = 256;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kPerWarp = static_cast<int>(kSortTile) / kWarps;

__device__ __forceinline__ int digit_of(std::int32_t key, int shift) {
  return (key >> shift) & (kDigits - 1);
}

// Counts[w][d] of the keys of warp w's contiguous share of the tile, in order; `visit(i, key,
// rank)` sees each key with its rank among its warp's equal digits before it.
template <class Visit>
__device__ __forceinline__ void count_in_order(const std::int32_t* keys, std::int64_t n, int shift,
                                               int (&counts)[kWarps][kDigits], Visit&& visit) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t begin = blockIdx.x * kSortTile + warp * kPerWarp;
  for (int step = 0; step < kPerWarp; step += 32) {
    const std::int64_t i = begin + step + lane;
    const bool valid = i < n;
    const std::int32_t key = valid ? keys[i] : 0;
    const int digit = valid ? digit_of(key, shift) : kDigits;
    const unsigned peers = __match_any_sync(0xffffffffu, digit);
    const int before = __popc(peers & ((1u << lane) - 1));
    const int base = valid ? counts[warp][digit] : 0;
    __syncwarp();
    if (valid && before == 0) counts[warp][digit] = base + __popc(peers);
    __syncwarp();
    if (valid) visit(i, key, base + before);
  }
}

// histogram[d * tiles + tile]
__global__ void __launch_bounds__(kThreads)
    histogram_kernel(int* histogram, const std::int32_t* keys, std::int64_t n, int shift) {
  __shared__ int counts[kWarps][kDigits];
  for (int w = 0; w < kWarps; ++w) counts[w][threadIdx.x] = 0;
  __syncthreads();
  count_in_order(keys, n, shift, counts, [](std::int64_t, std::int32_t, int) {});
  __syncthreads();
  int sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += counts[w][threadIdx.x];
  histogram[static_cast<std::int64_t>(threadIdx.x) * gridDim.x + blockIdx.x] = sum;
}

// Turns the counts of digit blockIdx.x into their prefix sums over the tiles; totals[d]: their sum.
__global__ void __launch_bounds__(kThreads)
    scan_tiles_kernel(int* histogram, int* totals, int tiles) {
  __shared__ int warp_sums[kWarps];
  int* row = histogram + static_cast<std::int64_t>(blockIdx.x) * tiles;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int carry = 0;
  for (int begin = 0; begin < tiles; begin += kThreads) {
    const int i = begin + static_cast<int>(threadIdx.x);
    const int value = i < tiles ? row[i] : 0;
    int sum = value;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
      const int other = __shfl_up_sync(0xffffffffu, sum, o);
      if (lane >= o) sum += other;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    int before = carry, all = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) before += warp_sums[w];
      all += warp_sums[w];
    }
    if (i < tiles) row[i] = before + sum - value;
    carry += all;
    __syncthreads();
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = carry;
}

// index_in null: the keys stand where they began.
__global__ void __launch_bounds__(kThreads)
    scatter_kernel(std::int32_t* keys_out, std::int32_t* index_out, const std::int32_t* keys,
                   const std::int32_t* index_in, const int* histogram, const int* totals,
                   std::int64_t n, int shift) {
  __shared__ int counts[kWarps][kDigits];
  __shared__ int place[kWarps][kDigits];
  __shared__ int scan[kDigits];
  const int digit = static_cast<int>(threadIdx.x);
  for (int w = 0; w < kWarps; ++w) counts[w][digit] = 0;
  scan[digit] = totals[digit];
  __syncthreads();
  for (int o = 1; o < kDigits; o <<= 1) {
    const int other = digit >= o ? scan[digit - o] : 0;
    __syncthreads();
    scan[digit] += other;
    __syncthreads();
  }
  count_in_order(keys, n, shift, counts, [](std::int64_t, std::int32_t, int) {});
  __syncthreads();
  int base = scan[digit] - totals[digit] +
             histogram[static_cast<std::int64_t>(digit) * gridDim.x + blockIdx.x];
  for (int w = 0; w < kWarps; ++w) {
    place[w][digit] = base;
    base += counts[w][digit];
    counts[w][digit] = 0;
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  count_in_order(keys, n, shift, counts, [&](std::int64_t i, std::int32_t key, int rank) {
    const int target = place[warp][digit_of(key, shift)] + rank;
    keys_out[target] = key;
    index_out[target] = index_in != nullptr ? index_in[i] : static_cast<std::int32_t>(i);
  });
}

}  // namespace

SortedKeys radix_sort(cudaStream_t stream, const std::int32_t* keys, std::int64_t n,
                      std::int64_t limit, void* workspace) {
  const std::int64_t tiles = sort_tiles(n), padded = tiles * kSortTile;
  auto* buffer = static_cast<std::int32_t*>(workspace);
  std::int32_t* key_buffers[2] = {buffer, buffer + padded};
  std::int32_t* index_buffers[2] = {buffer + 2 * padded, buffer + 3 * padded};
  std::int32_t* histogram = buffer + 4 * padded;
  std::int32_t* totals = histogram + kDigits * tiles;
  const std::int32_t* from = keys;
  const std::int32_t* index = nullptr;
  int side = 0, shift = 0;
  const auto grid = static_cast<unsigned>(tiles);
  do {
    histogram_kernel<<<grid, kThreads, 0, stream>>>(histogram, from, n, shift);
    scan_tiles_kernel<<<kDigits, kThreads, 0, stream>>>(histogram, totals, static_cast<int>(tiles));
    scatter_kernel<<<grid, kThreads, 0, stream>>>(key_buffers[side], index_buffers[side], from,
                                                  index, histogram, totals, n, shift);
    CHECK_LAUNCH();
    from = key_buffers[side];
    index = index_buffers[side];
    side ^= 1;
    shift += 8;
  } while (shift < 31 && (limit - 1) >> shift > 0);
  return {.keys = from, .index = index};
}

}  // namespace glmtune::ops
