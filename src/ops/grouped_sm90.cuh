#pragma once
// What the grouped products on Hopper's tensor cores share: shared memory, the slabs of both
// operands that the copy engine brings into it, the products of a tile. The two blocks of a
// cluster, one above the other, share the second operand by multicast; side by side, the first.
#include "cuda/sm90_wgmma.cuh"
#include "cuda/tensor_map.h"
#include "ops/grouped_tiles_sm90.cuh"

namespace glmtune::ops::grouped {

inline constexpr int kPiece = 64 * 64 * 2;  // bytes of one copied box: 64 rows of 128 bytes
inline constexpr int kPiecesA = kTileM / 64, kPiecesB = kTileN / 64;
inline constexpr int kStageBytes = (kPiecesA + kPiecesB) * kPiece;

// Bytes that arrive in each block for a slab of the tile: of rows that lie side by side, the second
// box of 64 only where there are any.
__device__ __forceinline__ std::uint32_t slab_bytes(const Tile& tile) {
  return static_cast<std::uint32_t>(kStageBytes - (tile.beside && tile.rows <= 64 ? kPiece : 0));
}

// One slab of both operands into `stage`, this block's share of the cluster's copies, under an L2
// policy. What both blocks need, the second operand or (side by side) the first, each fetches half
// of for both.
template <Product P>
__device__ __forceinline__ void load_slab(std::uint8_t* stage, std::uint64_t* full,
                                          const CUtensorMap* map_a, const CUtensorMap* map_b,
                                          const Tile& tile, int kb, int rank,
                                          std::uint64_t policy) {
  const int k = tile.k0 + kb * kTileK;
  std::uint8_t* b = stage + kPiecesA * kPiece;
  if (P != Product::kWgrad && tile.beside) {
    if (64 * rank < tile.rows)
      tma_load_2d_multicast(stage + rank * kPiece, map_a, full, k, tile.m0 + 64 * rank, 3);
#pragma unroll
    for (int j = 0; j < kPiecesB; ++j) {
      const int n = tile.n0 + 64 * j;
      const int x = P == Product::kTransB ? k : n, y = P == Product::kTransB ? n : k;
      tma_load_3d(b + j * kPiece, map_b, full, x, y, tile.expert, policy);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kPiecesA; ++i) {
    const int m = tile.m0 + 64 * i;
    const int x = P == Product::kWgrad ? m : k, y = P == Product::kWgrad ? k : m;
    tma_load_2d(stage + i * kPiece, map_a, full, x, y, policy);
  }
#pragma unroll
  for (int half = 0; half < kPiecesB / 2; ++half) {
    const int j = rank * (kPiecesB / 2) + half, n = tile.n0 + 64 * j;
    const int x = P == Product::kTransB ? k : n, y = P == Product::kTransB ? n : k;
    const int z = P == Product::kWgrad ? 0 : tile.expert;
    tma_load_3d_multicast(b + j * kPiece, map_b, full, x, y, z, 3, policy);
  }
}

// A kernel's shared memory: a ring of slabs, room for results on their way out, the ring's
// barriers, the tiles told of (Counted), and the number of tiles before every expert.
template <int kStages, int kSlabBytes, int kStagingBytes>
struct SharedMemory {
  static constexpr int kBytes =
      kStages * (kSlabBytes + 16) + kStagingBytes + kTold * 12 + (kMaxExperts + 1) * 4 + 1024;
  static_assert(kBytes <= 227 * 1024);

  std::uint8_t *slabs, *staging;
  std::uint64_t *full, *empty, *arrived;
  int *told, *before;

  __device__ explicit SharedMemory(std::uint8_t* raw)
      : slabs(raw + (1024 - smem_address(raw) % 1024) % 1024),
        staging(slabs + kStages * kSlabBytes),
        full(reinterpret_cast<std::uint64_t*>(staging + kStagingBytes)),
        empty(full + kStages),
        arrived(empty + kStages),
        told(reinterpret_cast<int*>(arrived + kTold)),
        before(told + kTold) {}

  // By all threads of a cluster, before anything else; `releases` arrivals empty a slot.
  template <class Tiles>
  __device__ void begin(const Problem& p, int releases) {
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) {
        mbarrier_init(&full[s], 1);
        mbarrier_init(&empty[s], releases);
      }
      for (int t = 0; t < kTold; ++t) mbarrier_init(&arrived[t], 1);
      fence_mbarrier_init();
    }
    if (threadIdx.x / 32 == 1) count_tiles<Tiles>(p, before);
    __syncthreads();
    cluster_sync();
  }

  __device__ std::uint8_t* slab(int slot) const { return slabs + slot * kSlabBytes; }
};

// One thread of a block feeds the ring with the slabs of all its tiles, `work`'s; begin(tile) comes
// first. Behind the last tile comes a slot without a slab.
template <class Work, int kStages, int kStaging, Product P, class Begin>
__device__ __forceinline__ void feed(Schedule<P> tiles, Work work, int rank,
                                     const SharedMemory<kStages, kStageBytes, kStaging>& memory,
                                     const CUtensorMap* map_a, const CUtensorMap* map_b,
                                     std::uint64_t policy, Begin&& begin) {
  Ring<kStages> ring;
  for (Tile tile{}; tiles.find(work.next(), rank, tile);) {
    begin(tile);
    for (int kb = 0; kb < tile.k_blocks; ++kb) {
      if (kb == max(0, tile.k_blocks - kStages)) work.prepare();
      std::uint64_t* full = &memory.full[ring.slot];
      mbarrier_wait(&memory.empty[ring.slot], ring.phase ^ 1);
      mbarrier_arrive_expect(full, slab_bytes(tile));
      load_slab<P>(memory.slab(ring.slot), full, map_a, map_b, tile, kb, rank, policy);
      ring.next();
    }
  }
  mbarrier_wait(&memory.empty[ring.slot], ring.phase ^ 1);
  mbarrier_arrive(&memory.full[ring.slot]);
}

// Of a multiplying warp in a kernel whose tiles are Counted: the tile whose first slab, or slot
// without one, is next in the ring. False: that was all.
template <Product P, int kStages, class Memory>
__device__ __forceinline__ bool next_tile(Schedule<P>& tiles, const Memory& memory,
                                          const Ring<kStages>& ring, Ring<kTold>& turn, int rank,
                                          Tile& tile) {
  mbarrier_wait(&memory.full[ring.slot], ring.phase);
  const int index = memory.told[turn.slot];
  turn.next();
  return tiles.find(index, rank, tile);
}

// A warp has read a slab: it tells both blocks of the cluster, which loaded half of it each.
__device__ __forceinline__ void release_slab(std::uint64_t* empty) {
  const auto lane = threadIdx.x % 32;
  if (lane < 2) mbarrier_arrive_cluster(empty, lane);
}

// d (+)= this warpgroup's 64 rows of the slab's first operand times its second.
template <Product P>
__device__ __forceinline__ void multiply_slab(float (&d)[kTileN / 2], const std::uint8_t* stage,
                                              int group, bool accumulate) {
  constexpr int kTransA = P == Product::kWgrad ? 1 : 0;
  constexpr int kTransB = P == Product::kTransB ? 0 : 1;
  constexpr int kStepA = kTransA ? 2048 : 32, kStepB = kTransB ? 2048 : 32;
  const std::uint8_t* a = stage + group * kPiece;
  const std::uint8_t* b = stage + kPiecesA * kPiece;
  const std::uint64_t da = kTransA ? mn_major_descriptor(a, kPiece) : k_major_descriptor(a);
  const std::uint64_t db = kTransB ? mn_major_descriptor(b, kPiece) : k_major_descriptor(b);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < kTileK / 16; ++k)
    Wgmma<kTileN>::template ss<kTransA, kTransB>(d, advance(da, k * kStepA),
                                                 advance(db, k * kStepB), accumulate || k > 0);
  wgmma_commit();
}

// The last steps of an expert's rows, of 16 each, may reach into the next expert's: those rows
// count as zero. By the 256 multiplying threads.
__device__ __forceinline__ void clear_rows(std::uint8_t* stage, int valid) {
  const int chunks = (16 - valid % 16) % 16 * 8;  // of 16 bytes, in each piece
  for (int i = static_cast<int>(threadIdx.x) - 128; i < chunks * (kPiecesA + kPiecesB); i += 256) {
    const int piece = i / chunks, chunk = i - piece * chunks;
    *reinterpret_cast<uint4*>(stage + piece * kPiece + valid * 128 + chunk * 16) = uint4{};
  }
  fence_async_shared();
  named_barrier_sync(1, 256);
}

// A slab's first `valid` rows only, step by step. Each step waits for its product: with products in
// flight over a branch the compiler would wait after every one of the kernel's.
__device__ __forceinline__ void multiply_rows(float (&d)[kTileN / 2], std::uint8_t* stage,
                                              int group, int valid, bool accumulate) {
  clear_rows(stage, valid);
  const std::uint64_t a = mn_major_descriptor(stage + group * kPiece, kPiece);
  const std::uint64_t b = mn_major_descriptor(stage + kPiecesA * kPiece, kPiece);
#pragma unroll 1
  for (int row = 0; row < valid; row += 16) {
    wgmma_fence();
    Wgmma<kTileN>::template ss<1, 1>(d, advance(a, row * 128), advance(b, row * 128),
                                     accumulate || row > 0);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_pin(d);
  }
}

// A tile's products of a multiplying warpgroup, the sum over the tile's slabs: d is complete, and
// every slab handed back.
template <Product P, class Memory, int kStages>
__device__ __forceinline__ void multiply_tile(float (&d)[kTileN / 2], const Memory& memory,
                                              Ring<kStages>& ring, const Tile& tile, int group) {
  const bool partial = P == Product::kWgrad && tile.k_last < kTileK;
  const int whole = tile.k_blocks - (partial ? 1 : 0);
  int held = ring.slot;  // the slot the products in flight read
  for (int kb = 0; kb < whole; ++kb) {
    mbarrier_wait(&memory.full[ring.slot], ring.phase);
    multiply_slab<P>(d, memory.slab(ring.slot), group, kb > 0);
    wgmma_wait<1>();
    if (kb > 0) release_slab(&memory.empty[held]);
    held = ring.slot;
    ring.next();
  }
  wgmma_wait<0>();
  wgmma_pin(d);
  if (whole > 0) release_slab(&memory.empty[held]);
  if (partial) {
    mbarrier_wait(&memory.full[ring.slot], ring.phase);
    multiply_rows(d, memory.slab(ring.slot), group, tile.k_last, whole > 0);
    release_slab(&memory.empty[ring.slot]);
    ring.next();
  }
}

// Columns 64·chunk .. of a warp's 16 rows as bf16 to 16 swizzled rows of 128 bytes.
__device__ __forceinline__ void stage_bf16(const float (&d)[kTileN / 2], int chunk,
                                           std::uint8_t* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8;
  const std::uint32_t row = lane % 8 + 8 * (matrix & 1), byte = (matrix >> 1) * 16;
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    const int j = (chunk * 8 + g * 2) * 4;
    stmatrix_x4(to + swizzle_128(row, g * 32 + byte), pack_bf16(d[j], d[j + 1]),
                pack_bf16(d[j + 2], d[j + 3]), pack_bf16(d[j + 4], d[j + 5]),
                pack_bf16(d[j + 6], d[j + 7]));
  }
}

// Where the numbers of Counted tiles come from.
inline int* zeroed_counter(Context& ctx, const Tensor& workspace) {
  CUDA_CHECK(cudaMemsetAsync(workspace.data, 0, sizeof(int), stream_of(ctx)));
  return workspace.as<int>();
}

// Whole clusters, a block for each multiprocessor.
template <class Kernel, class... Maps>
void launch(Context& ctx, Kernel kernel, int threads, int shared_bytes, const Problem& p,
            const Maps&... maps) {
  CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  const int blocks = cuda_of(ctx, "GroupedMatmul").multiprocessors / 2 * 2;
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
           static_cast<std::size_t>(shared_bytes), stream_of(ctx)>>>(maps..., p);
  CHECK_LAUNCH();
}

// What a weight gradient's kernel gets.
struct WgradLaunch {
  CUtensorMap dy, x, dw;
  Problem p;
  bool wide, overwrite;
};
// grouped_wgrad_staged_sm90.cu: gradients that are overwritten, or in bf16.
void wgrad_staged(Context& ctx, const WgradLaunch& go);

// Whether the copy engine can fetch this operand's rows.
inline bool addressable(const Tensor& t) {
  if (t.dtype != DType::kBF16 || t.size(-1) % 8 != 0) return false;
  return t.rank == 2 ? tensor_map_possible(t.data, {t.stride(0) * 2})
                     : tensor_map_possible(t.data, {t.stride(0) * 2, t.stride(1) * 2});
}

}  // namespace glmtune::ops::grouped
