// bf16 weight gradients of experts with many rows, dw[e] += dyᵀ x: a persistent kernel like the
// products', whose results the copy engine adds to dw. The sum over the rows is rounded, then the
// sum with what was there. Some 10 % faster than grouped_wgrad_sm90.cu where the products take the
// time: nothing is read, and the room goes to a fourth slab.
#include "ops/grouped_sm90.cuh"

namespace glmtune::ops {
namespace {

using namespace grouped;

constexpr int kStages = 4;
constexpr int kThreads = 384;
constexpr int kStagingBytes = 32 * 1024;  // results on their way out
using Memory = SharedMemory<kStages, kStageBytes, kStagingBytes>;

// 64 rows x 256 columns of a warpgroup, added to the results by the copy engine in boxes of 128
// bytes a row. One addition an element and launch: no order matters.
__device__ __forceinline__ void add_rows(const CUtensorMap* map, const float (&d)[128],
                                         std::uint8_t* staging, int group, int x, int y, int z,
                                         int columns) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const bool issuer = threadIdx.x % 128 == 0;
  constexpr int kBoxes = kStagingBytes / 2 / 8192;
#pragma unroll
  for (int q = 0; q < kTileN / 64; ++q) {
    if (q * 64 >= columns) break;
    std::uint8_t* box = staging + q % kBoxes * 8192;
    if (issuer) bulk_wait_read<kBoxes - 1>();  // the last copy from this box has left it
    named_barrier_sync(2 + group, 128);
    stage_bf16(d, q, box + 2048 * warp);
    fence_async_shared();
    named_barrier_sync(2 + group, 128);
    if (issuer) {
      tma_reduce_add_3d(map, box, x + q * 64, y, z);
      bulk_commit();
    }
  }
}

// The results come into L2 while their tile is multiplied.
__device__ __forceinline__ void fetch_results(const CUtensorMap* map, const Tile& tile,
                                              const Problem& p) {
  for (int n = tile.n0; n < min(tile.n0 + kTileN, p.n); n += 64)
    for (int m = 0; m < tile.rows; m += 64) tma_prefetch_3d(map, n, tile.m0 + m, tile.expert);
}

__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    many_rows_kernel(const __grid_constant__ CUtensorMap map_dy,
                     const __grid_constant__ CUtensorMap map_x,
                     const __grid_constant__ CUtensorMap map_dw, Problem p) {
  extern __shared__ std::uint8_t raw[];
  Memory memory(raw);
  memory.begin<Schedule<Product::kWgrad>>(p, 16);  // 8 multiplying warps in each of the two blocks
  const int rank = static_cast<int>(cluster_cta_rank());
  const int warp = static_cast<int>(threadIdx.x) / 32;

  Schedule<Product::kWgrad> tiles{memory.before, p};
  if (warp < 4) {
    register_budget_lower<40>();
    if (warp == 0 && elect_one())
      feed(tiles, Counted(p.counter, memory.told, memory.arrived, rank), rank, memory, &map_dy,
           &map_x, kEvictNormal, [&](const Tile& tile) { fetch_results(&map_dw, tile, p); });
  } else {
    register_budget_raise<232>();
    const int group = warp / 4 - 1;
    Ring<kStages> ring;
    Ring<kTold> turn;
    float d[kTileN / 2];
    for (Tile tile{}; next_tile(tiles, memory, ring, turn, rank, tile);) {
      multiply_tile<Product::kWgrad>(d, memory, ring, tile, group);
      if (tile.rows > 64 * group)
        add_rows(&map_dw, d, memory.staging + group * (kStagingBytes / 2), group, tile.n0,
                 tile.m0 + 64 * group, tile.expert, p.n - tile.n0);
    }
  }
  bulk_wait<0>();  // of the threads that issued copies
  __syncwarp();
  cluster_sync();  // a block stays while its partner may still arrive on its barriers
}

}  // namespace

void grouped::wgrad_bf16_of_many_rows(Context& ctx, const WgradLaunch& go) {
  launch(ctx, many_rows_kernel, kThreads, Memory::kBytes, go.p, go.dy, go.x, go.dw);
}

}  // namespace glmtune::ops
