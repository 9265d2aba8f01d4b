// Weight gradients that no block reads, dw[e] = dyᵀ x, or += in bf16: a persistent kernel like the
// products', whose results leave through shared memory, written or added by the copy engine. Where
// it adds, the sum over the rows is rounded, then the sum with what was there. Some 10 % faster
// than grouped_wgrad_sm90.cu where the products take the time: nothing is brought in, and the room
// goes to a fourth slab.
#include "ops/grouped_sm90.cuh"

namespace glmtune::ops {
namespace {

using namespace grouped;

constexpr int kStages = 4;
constexpr int kThreads = 384;
constexpr int kStagingBytes = 32 * 1024;  // results on their way out
using Memory = SharedMemory<kStages, kStageBytes, kStagingBytes>;

template <class Out>
constexpr int kBoxColumns = 128 / static_cast<int>(sizeof(Out));

// 64 rows x one box's columns of a warpgroup to swizzled rows of 128 bytes.
__device__ __forceinline__ void stage_box(const float (&d)[128], int q, std::uint8_t* box, bf16) {
  stage_bf16(d, q, box + 2048 * (static_cast<int>(threadIdx.x) / 32 % 4));
}
// (Lanes of odd rows take another order, so that no two rows meet in a bank.)
__device__ __forceinline__ void stage_box(const float (&d)[128], int q, std::uint8_t* box, float) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool swapped = lane / 4 % 2 != 0;
  const std::uint32_t at = swizzle_128(16 * warp + lane / 4, lane % 4 * 8) ^ (swapped ? 64 : 0);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float *v = d + q * 16 + 2 * i, *w = d + q * 16 + 2 * (i ^ 4);
    *reinterpret_cast<float2*>(box + (at ^ (i / 2 * 32)) + i % 2 * 1024) = {swapped ? w[0] : v[0],
                                                                            swapped ? w[1] : v[1]};
  }
}

// 64 rows x 256 columns of a warpgroup, written or added by the copy engine in boxes of 128 bytes a
// row. One addition an element and launch: no order matters. (What is written leaves L2 first:
// operands are read again, it is not.)
template <class Out, bool kAdds>
__device__ __forceinline__ void put_rows(const CUtensorMap* map, const float (&d)[128],
                                         std::uint8_t* staging, int group, int x, int y, int z,
                                         int columns) {
  const bool issuer = threadIdx.x % 128 == 0;
  constexpr int kBoxes = kStagingBytes / 2 / 8192;
#pragma unroll
  for (int q = 0; q < kTileN / kBoxColumns<Out>; ++q) {
    if (q * kBoxColumns<Out> >= columns) break;
    std::uint8_t* box = staging + q % kBoxes * 8192;
    if (issuer) bulk_wait_read<kBoxes - 1>();  // the last copy from this box has left it
    named_barrier_sync(2 + group, 128);
    stage_box(d, q, box, Out{});
    fence_async_shared();
    named_barrier_sync(2 + group, 128);
    if (issuer) {
      if constexpr (kAdds)
        tma_reduce_add_3d(map, box, x + q * kBoxColumns<Out>, y, z);
      else
        tma_store_3d(map, box, x + q * kBoxColumns<Out>, y, z, kEvictFirst);
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

template <class Out, bool kAdds>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    staged_kernel(const __grid_constant__ CUtensorMap map_dy,
                  const __grid_constant__ CUtensorMap map_x,
                  const __grid_constant__ CUtensorMap map_dw, Problem p) {
  extern __shared__ std::uint8_t raw[];
  Memory memory(raw);
  memory.begin<Schedule<Product::kWgrad>>(p, 16);  // 8 multiplying warps in each of the two blocks
  const int rank = static_cast<int>(cluster_cta_rank());
  const int warp = static_cast<int>(threadIdx.x) / 32;

  // float32 results would push the operands out of L2.
  constexpr std::uint64_t kPolicy = sizeof(Out) == 4 ? kEvictLast : kEvictNormal;
  Schedule<Product::kWgrad> tiles{memory.before, p};
  if (warp < 4) {
    register_budget_lower<40>();
    if (warp == 0 && elect_one())
      feed(tiles, Counted(p.counter, memory.told, memory.arrived, rank), rank, memory, &map_dy,
           &map_x, kPolicy, [&](const Tile& tile) {
             if constexpr (kAdds) fetch_results(&map_dw, tile, p);
           });
  } else {
    register_budget_raise<232>();
    const int group = warp / 4 - 1;
    Ring<kStages> ring;
    Ring<kTold> turn;
    float d[kTileN / 2];
    for (Tile tile{}; next_tile(tiles, memory, ring, turn, rank, tile);) {
      multiply_tile<Product::kWgrad>(d, memory, ring, tile, group);
      if (tile.rows > 64 * group)
        put_rows<Out, kAdds>(&map_dw, d, memory.staging + group * (kStagingBytes / 2), group,
                             tile.n0, tile.m0 + 64 * group, tile.expert, p.n - tile.n0);
    }
  }
  bulk_wait<0>();  // of the threads that issued copies
  __syncwarp();
  cluster_sync();  // a block stays while its partner may still arrive on its barriers
}

}  // namespace

void grouped::wgrad_staged(Context& ctx, const WgradLaunch& go) {
  auto kernel = staged_kernel<bf16, true>;
  if (go.overwrite) kernel = go.wide ? staged_kernel<float, false> : staged_kernel<bf16, false>;
  launch(ctx, kernel, kThreads, Memory::kBytes, go.p, go.dy, go.x, go.dw);
}

}  // namespace glmtune::ops
