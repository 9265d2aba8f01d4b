// Weight gradients of the grouped products on Hopper's tensor cores, dw[e] += dyᵀ x over e's rows:
// a persistent kernel like the products', whose results the copy engine adds to dw.
#include "ops/grouped_sm90.cuh"

namespace glmtune::ops {
namespace {

using namespace grouped;

constexpr int kStages = 4;
constexpr int kThreads = 384;
constexpr int kStagingBytes = 32 * 1024;  // results on their way out
constexpr int kSharedBytes =
    kStages * (kStageBytes + 16) + kStagingBytes + (kMaxExperts + 1) * 4 + 1024;

// The last slab of an expert's rows reaches into the next expert's: those rows count as zero.
// By the 256 multiplying threads, `thread` among them.
__device__ __forceinline__ void clear_rows(std::uint8_t* stage, int valid, int thread) {
  const int chunks = (kTileK - valid) * 8;  // of 16 bytes, in each piece
  for (int i = thread; i < chunks * (kPiecesA + kPiecesB); i += 256) {
    const int piece = i / chunks, chunk = i - piece * chunks;
    *reinterpret_cast<uint4*>(stage + piece * kPiece + valid * 128 + chunk * 16) = uint4{};
  }
  fence_async_shared();
  named_barrier_sync(1, 256);
}

// 64 rows x 256 columns of a warpgroup, added to the results by the copy engine in boxes of 128
// bytes a row. One addition an element and launch: no order matters. (For bf16 results the sum over
// the rows is rounded before it is added, too.)
template <class Out>
__device__ __forceinline__ void add_rows(const CUtensorMap* map, const float (&d)[128],
                                         std::uint8_t* staging, int group, int x, int y, int z,
                                         int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const bool issuer = threadIdx.x % 128 == 0;
  constexpr int kColumns = 128 / static_cast<int>(sizeof(Out));
  constexpr int kBoxes = kStagingBytes / 2 / 8192;
#pragma unroll
  for (int q = 0; q < kTileN / kColumns; ++q) {
    if (q * kColumns >= columns) break;
    std::uint8_t* box = staging + q % kBoxes * 8192;
    if (issuer) bulk_wait_read<kBoxes - 1>();  // the last copy from this box has left it
    named_barrier_sync(2 + group, 128);
    if constexpr (std::is_same_v<Out, float>) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* v = d + (4 * q + j) * 4;
        const std::uint32_t row = 16 * warp + lane / 4, byte = j * 32 + lane % 4 * 8;
        *reinterpret_cast<float2*>(box + swizzle_128(row, byte)) = {v[0], v[1]};
        *reinterpret_cast<float2*>(box + swizzle_128(row + 8, byte)) = {v[2], v[3]};
      }
    } else {
      stage_bf16(d, q, box + 2048 * warp);
    }
    fence_async_shared();
    named_barrier_sync(2 + group, 128);
    if (issuer) {
      tma_reduce_add_3d(map, box, x + q * kColumns, y, z);
      bulk_commit();
    }
  }
}

// BF16 results come into L2 while their tile is multiplied. (F32 ones, twice as many, push the
// operands out: 14 % slower.)
template <class Out>
__device__ __forceinline__ void fetch_results(const CUtensorMap* map, const Tile& tile,
                                              const Problem& p) {
  if constexpr (sizeof(Out) == 2)
    for (int n = tile.n0; n < min(tile.n0 + kTileN, p.n); n += 64)
      for (int m = 0; m < tile.rows; m += 64) tma_prefetch_3d(map, n, tile.m0 + m, tile.expert);
}

template <class Out>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    wgrad_kernel(const __grid_constant__ CUtensorMap map_dy,
                 const __grid_constant__ CUtensorMap map_x,
                 const __grid_constant__ CUtensorMap map_dw, Problem p) {
  extern __shared__ std::uint8_t raw[];
  std::uint8_t* shared = raw + (1024 - smem_address(raw) % 1024) % 1024;
  std::uint8_t* staging = shared + kStages * kStageBytes;
  auto* full = reinterpret_cast<std::uint64_t*>(staging + kStagingBytes);
  std::uint64_t* empty = full + kStages;
  auto* before = reinterpret_cast<int*>(empty + kStages);
  const int rank = static_cast<int>(cluster_cta_rank());
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], 16);  // 8 multiplying warps in each of the two blocks
    }
    fence_mbarrier_init();
  }
  if (warp == 1) count_tiles<Product::kWgrad>(p, before);
  __syncthreads();
  cluster_sync();

  Schedule<Product::kWgrad> tiles{before, p};
  const int clusters = static_cast<int>(gridDim.x) / 2;
  int index = static_cast<int>(blockIdx.x) / 2;
  if (warp < 4) {
    register_budget_lower<40>();
    if (warp == 0 && elect_one())
      feed<kStages>(tiles, index, clusters, rank, shared, full, empty, &map_dy, &map_x,
                    [&](const Tile& tile) { fetch_results<Out>(&map_dw, tile, p); });
  } else {
    register_budget_raise<232>();
    const int group = warp / 4 - 1;
    SlabRing<kStages> ring;
    float d[kTileN / 2];
    for (Tile tile{}; tiles.find(index, rank, tile); index += clusters) {
      int held = ring.slot;  // the slot the products in flight read
      for (int kb = 0; kb < tile.k_blocks; ++kb) {
        mbarrier_wait(&full[ring.slot], ring.phase);
        std::uint8_t* stage = shared + ring.slot * kStageBytes;
        if (kb + 1 == tile.k_blocks && tile.k_last < kTileK)
          clear_rows(stage, tile.k_last, static_cast<int>(threadIdx.x) - 128);
        multiply_slab<Product::kWgrad>(d, stage, group, kb > 0);
        wgmma_wait<1>();
        if (kb > 0) release_slab(&empty[held]);
        held = ring.slot;
        ring.next();
      }
      wgmma_wait<0>();
      wgmma_pin(d);
      release_slab(&empty[held]);
      if (tile.rows > 64 * group)
        add_rows<Out>(&map_dw, d, staging + group * (kStagingBytes / 2), group, tile.n0,
                      tile.m0 + 64 * group, tile.expert, p.n - tile.n0);
    }
  }
  bulk_wait<0>();  // of the threads that issued copies
  __syncwarp();
  cluster_sync();  // a block stays while its partner may still arrive on its barriers
}

}  // namespace

bool grouped_wgrad_sm90(Context& ctx, const GroupedMatmulWgrad& op) {
  const std::int64_t experts = op.dw.size(0);
  const bool wide = op.dw.dtype == DType::kF32;
  if (!addressable(op.dy) || !addressable(op.x) || experts > kMaxExperts ||
      !packs(op.dw, wide ? 4 : 8))
    return false;
  const Problem p{.offsets = op.offsets.as<const std::int32_t>(),
                  .out = op.dw.data,
                  .ld = op.dw.stride(1),
                  .experts = static_cast<int>(experts),
                  .m = static_cast<int>(op.dw.size(1)),
                  .n = static_cast<int>(op.dw.size(2)),
                  .k = 0};
  const CUtensorMap dy =
      make_tensor_map(TensorMapType::kBF16, op.dy.data, {op.dy.size(1), op.dy.size(0)},
                      {op.dy.stride(0)}, {64, 64}, TensorMapSwizzle::k128);
  // As three dimensions, the outermost of size 1: the second operand is always loaded that way.
  const CUtensorMap x = make_tensor_map(
      TensorMapType::kBF16, op.x.data, {op.x.size(1), op.x.size(0), 1},
      {op.x.stride(0), op.x.stride(0) * op.x.size(0)}, {64, 64, 1}, TensorMapSwizzle::k128);
  const CUtensorMap dw =
      make_tensor_map(wide ? TensorMapType::kF32 : TensorMapType::kBF16, op.dw.data,
                      {op.dw.size(2), op.dw.size(1), experts}, {op.dw.stride(1), op.dw.stride(0)},
                      {wide ? 32 : 64, 64, 1}, TensorMapSwizzle::k128);
  launch(ctx, wide ? wgrad_kernel<float> : wgrad_kernel<bf16>, kThreads, kSharedBytes, p, dy, x,
         dw);
  return true;
}

}  // namespace glmtune::ops
