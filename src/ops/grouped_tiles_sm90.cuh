#pragma once
// The tiles of the grouped products on Hopper's tensor cores: 128 x 256 results a block, two
// neighbouring blocks (a cluster) a tile, over all experts; found on the device from the offsets.
#include "cuda/sm90.cuh"
#include "ops/grouped.cuh"

namespace glmtune::ops::grouped {

using namespace sm90;

inline constexpr int kTileM = 128, kTileN = 256, kTileK = 64;
inline constexpr int kMaxExperts = 416;  // what shared memory has room for
inline constexpr int kRasterM = 8;       // tile pairs along m walked together: operands stay in L2

enum class Product : std::uint8_t {
  kTransB,  // out[r] = a[r] · b[e]ᵀ, b [E, N, K]
  kPlain,   // out[r] = a[r] · b[e],  b [E, K, N]
  kWgrad,   // dw[e] += dyᵀ x: m counts dy's columns, n counts x's, the sum runs over e's rows
};

struct Problem {
  const std::int32_t* offsets;
  void* out;
  std::int64_t ld;         // of the results
  int experts, m, n, k;    // k of kWgrad and m of the others come from the offsets
  int* counter = nullptr;  // of Counted
};

struct Tile {
  int expert;
  int m0, n0;        // of this block: row of the output, column of the output
  int rows;          // output rows this tile may write (of kTileM)
  int k0, k_blocks;  // first row of the sum (kWgrad), slabs of 64
  int k_last;        // valid rows in the last slab
  bool beside;       // the cluster's blocks take the same rows, each its columns
};

// Counts tiles of a cluster, expert by expert: before[e] in shared memory. The two blocks of a tile
// lie one above the other; an expert's last rows, where one block has room for them, are tiled with
// the blocks side by side, so that neither only looks on.
template <Product P>
struct Schedule {
  const int* before;
  Problem p;
  int expert = 0;

  static constexpr int kClusterM = 2 * kTileM;
  struct Height {
    int above;  // rows of tiles with the blocks one above the other
    bool rest;  // a row of tiles with the blocks side by side follows
  };
  static __device__ Height height_of(const Problem& p, int rows) {
    if (rows == 0) return {0, false};
    if (P == Product::kWgrad) return {(p.m + kClusterM - 1) / kClusterM, false};
    const int above = (rows + kTileM - 1) / kClusterM;
    return {above, rows > above * kClusterM};
  }
  static __device__ int tiles_n(const Problem& p) { return (p.n + kTileN - 1) / kTileN; }
  static __device__ int tiles(const Problem& p, int rows) {
    const Height height = height_of(p, rows);
    const int n_tiles = tiles_n(p);
    return height.above * n_tiles + (height.rest ? (n_tiles + 1) / 2 : 0);
  }

  // Calls for ascending indices only. False past the last tile.
  __device__ __forceinline__ bool find(int index, int rank, Tile& tile) {
    if (index >= before[p.experts]) return false;
    while (index >= before[expert + 1]) ++expert;
    const int first = p.offsets[expert], rows = p.offsets[expert + 1] - first;
    const Height height = height_of(p, rows);
    const int in_band = kRasterM * tiles_n(p), local = index - before[expert];
    const int band = min(local / in_band, max(height.above - 1, 0) / kRasterM);
    const int above = min(kRasterM, height.above - band * kRasterM);
    int rest = local - band * in_band, m = band * kRasterM, n = 0;
    tile.beside = false;
    if (height.rest && m + above == height.above) {
      // Two columns of tiles at a time, before them the one that covers both columns' last rows.
      const int pair = rest / (2 * above + 1);
      n = 2 * pair;
      rest -= pair * (2 * above + 1) + 1;
      tile.beside = rest < 0;
    }
    if (tile.beside) {
      m += above;
      n += rank;
    } else {
      n += rest / above;
      m += rest % above;
    }
    tile.expert = expert;
    const int local_m = m * kClusterM + (tile.beside ? 0 : rank * kTileM);
    tile.n0 = n * kTileN;
    if constexpr (P == Product::kWgrad) {
      tile.m0 = local_m;
      tile.rows = min(kTileM, p.m - local_m);
      tile.k0 = first;
      tile.k_blocks = (rows + kTileK - 1) / kTileK;
      tile.k_last = rows - (tile.k_blocks - 1) * kTileK;
    } else {
      tile.m0 = first + local_m;
      tile.rows = min(kTileM, rows - local_m);
      tile.k0 = 0;
      tile.k_blocks = (p.k + kTileK - 1) / kTileK;
      tile.k_last = kTileK;
    }
    return true;
  }
};

// before[e] = tiles of the experts before e, for e = 0 .. experts, by one warp.
template <class Tiles>
__device__ __forceinline__ void count_tiles(const Problem& p, int* before) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int sum = 0;
  for (int base = 0; base < p.experts; base += 32) {
    const int e = base + lane;
    int tiles = 0;
    if (e < p.experts) tiles = Tiles::tiles(p, p.offsets[e + 1] - p.offsets[e]);
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
      const int other = __shfl_up_sync(0xffffffffu, tiles, o);
      if (lane >= o) tiles += other;
    }
    if (e < p.experts) before[e + 1] = sum + tiles;
    sum += __shfl_sync(0xffffffffu, tiles, 31);
  }
  if (lane == 0) before[0] = 0;
}

// The place in a ring of slots, and the parity of its phase.
template <int kSlots>
struct Ring {
  int slot = 0;
  std::uint32_t phase = 0;
  __device__ __forceinline__ void next() {
    if (++slot == kSlots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

// Which tiles a cluster takes. next() gives a tile's number, or one past the last; prepare() is
// called some slabs before the next next().

// Every step-th tile.
struct Strided {
  int index, step;
  __device__ void prepare() {}
  __device__ int next() {
    const int taken = index;
    index += step;
    return taken;
  }
};

// Tiles told of and perhaps not multiplied yet: more than there are slabs in flight, each of which
// may be a tile's only one.
inline constexpr int kTold = 8;

// The next tile of all, from a counter in global memory that starts at 0. Clusters drift apart when
// each has its own tiles; so, tiles that share operands run at the same time, and find them in L2.
// One thread of each block; the first block's asks the counter and tells both.
struct Counted {
  int* counter;
  int* told;               // [kTold], shared memory
  std::uint64_t* arrived;  // [kTold]
  int rank;
  Ring<kTold> asked, taken;

  __device__ Counted(int* counter_, int* told_, std::uint64_t* arrived_, int rank_)
      : counter(counter_), told(told_), arrived(arrived_), rank(rank_) {
    prepare();
  }
  __device__ void prepare() {
    if (rank != 0) return;
    const int index = atomicAdd(counter, 1);
    for (std::uint32_t cta = 0; cta < 2; ++cta)
      store_async_cluster(&told[asked.slot], index, &arrived[asked.slot], cta);
    asked.next();
  }
  __device__ int next() {
    mbarrier_arrive_expect(&arrived[taken.slot], 4);
    mbarrier_wait_cluster(&arrived[taken.slot], taken.phase);
    const int index = told[taken.slot];
    taken.next();
    return index;
  }
};

}  // namespace glmtune::ops::grouped
