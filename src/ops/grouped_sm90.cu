// Grouped products on Hopper's tensor cores: a persistent kernel walks 128 x 256 tiles of all
// experts, found on the device from the offsets. Of a block's three warpgroups one thread feeds a
// ring of 64-deep operand slabs through the copy engine, two warpgroups multiply 64 rows each, and
// skip what lies past an expert's last row. Two neighbouring blocks (a cluster), one above the
// other, share the second operand by multicast.
#include "cuda/sm90_wgmma.cuh"
#include "cuda/tensor_map.h"
#include "ops/grouped.cuh"

namespace glmtune::ops {
namespace {

using namespace sm90;

constexpr int kTileM = 128, kTileN = 256, kTileK = 64;
constexpr int kPiece = 64 * 64 * 2;  // bytes of one copied box: 64 rows of 128 bytes
constexpr int kPiecesA = kTileM / 64, kPiecesB = kTileN / 64;
constexpr int kStageBytes = (kPiecesA + kPiecesB) * kPiece;
constexpr int kThreads = 384;
constexpr int kMaxExperts = 480;

constexpr int kStages = 4;
constexpr int kStagingBytes = 32 * 1024;  // results on their way out
constexpr int kSharedBytes =
    kStages * (kStageBytes + 16) + kStagingBytes + (kMaxExperts + 1) * 4 + 1024;
constexpr int kRasterM = 8;  // tile pairs along m walked together, so that operands stay in L2

enum class Product : std::uint8_t {
  kTransB,  // out[r] = a[r] · b[e]ᵀ, b [E, N, K]
  kPlain,   // out[r] = a[r] · b[e],  b [E, K, N]
  kWgrad,   // dw[e] += dyᵀ x: m counts dy's columns, n counts x's, the sum runs over e's rows
};

struct Problem {
  const std::int32_t* offsets;
  void* out;
  std::int64_t ld;
  int experts, m, n, k;  // m and k of kWgrad / the others come from the offsets
};

struct Tile {
  int expert;
  int m0, n0;        // of this block: row of the output, column of the output
  int rows;          // output rows this tile may write (of kTileM)
  int k0, k_blocks;  // first row of the sum (kWgrad), slabs of 64
  int k_last;        // valid rows in the last slab
};

// Counts tiles of a cluster, expert by expert: before[e] in shared memory.
template <Product P>
struct Schedule {
  const int* before;
  const std::int32_t* offsets;
  Problem p;
  int expert = 0;

  static constexpr int kClusterM = 2 * kTileM;
  static __device__ int tiles_m(const Problem& p, int rows) {
    if (rows == 0) return 0;
    return ((P == Product::kWgrad ? p.m : rows) + kClusterM - 1) / kClusterM;
  }
  static __device__ int tiles_n(const Problem& p) { return (p.n + kTileN - 1) / kTileN; }

  // Calls for ascending indices only. False past the last tile.
  __device__ __forceinline__ bool find(int index, int rank, Tile& tile) {
    if (index >= before[p.experts]) return false;
    while (index >= before[expert + 1]) ++expert;
    const int first = offsets[expert], rows = offsets[expert + 1] - first;
    const int m_tiles = tiles_m(p, rows), n_tiles = tiles_n(p);
    const int local = index - before[expert];
    const int band = local / (kRasterM * n_tiles), rest = local - band * kRasterM * n_tiles;
    const int height = min(kRasterM, m_tiles - band * kRasterM);
    const int n = rest / height, m = band * kRasterM + rest - n * height;
    tile.expert = expert;
    const int local_m = m * kClusterM + rank * kTileM;
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

// One slab of both operands into `stage`, this block's share of the cluster's copies.
template <Product P>
__device__ __forceinline__ void load_slab(std::uint8_t* stage, std::uint64_t* full,
                                          const CUtensorMap* map_a, const CUtensorMap* map_b,
                                          const Tile& tile, int kb, int rank) {
  const int k = tile.k0 + kb * kTileK;
#pragma unroll
  for (int i = 0; i < kPiecesA; ++i) {
    const int m = tile.m0 + 64 * i;
    const int x = P == Product::kWgrad ? m : k, y = P == Product::kWgrad ? k : m;
    tma_load_2d(stage + i * kPiece, map_a, full, x, y);
  }
  std::uint8_t* b = stage + kPiecesA * kPiece;
#pragma unroll
  for (int half = 0; half < kPiecesB / 2; ++half) {
    const int j = rank * (kPiecesB / 2) + half, n = tile.n0 + 64 * j;
    const int x = P == Product::kTransB ? k : n, y = P == Product::kTransB ? n : k;
    const int z = P == Product::kWgrad ? 0 : tile.expert;
    tma_load_3d_multicast(b + j * kPiece, map_b, full, x, y, z, 3);
  }
}

// The last slab of an expert's rows reaches into the next expert's: those rows count as zero.
__device__ __forceinline__ void clear_rows(std::uint8_t* stage, int valid, int thread) {
  const int chunks = (kTileK - valid) * 8;  // of 16 bytes, in each piece
  for (int i = thread; i < chunks * (kPiecesA + kPiecesB); i += 256) {
    const int piece = i / chunks, chunk = i - piece * chunks;
    *reinterpret_cast<uint4*>(stage + piece * kPiece + valid * 128 + chunk * 16) = uint4{};
  }
  fence_async_shared();
  named_barrier_sync(1, 256);
}

// Columns 64·chunk .. of a warp's 16 rows as bf16 to 16 swizzled rows of 128 bytes.
__device__ __forceinline__ void stage_bf16(const float (&d)[128], int chunk, std::uint8_t* to) {
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

// 16 rows x 256 columns of a warp to bf16 rows: through shared memory, for whole 128-byte lines.
__device__ __forceinline__ void store_rows(bf16* out, std::int64_t ld, const float (&d)[128],
                                           std::uint8_t* staging, int rows, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int chunk = 0; chunk < 4; ++chunk) {
    __syncwarp();
    stage_bf16(d, chunk, staging);
    __syncwarp();
    const int column = chunk * 64 + lane % 8 * 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = i * 4 + lane / 8;
      const uint4 v = *reinterpret_cast<const uint4*>(staging + swizzle_128(r, lane % 8 * 16));
      if (r < rows && column < columns) *reinterpret_cast<uint4*>(out + r * ld + column) = v;
    }
  }
}

// The same as fp32, from the accumulator's own places.
__device__ __forceinline__ void store_rows(float* out, std::int64_t ld, const float (&d)[128],
                                           std::uint8_t*, int rows, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32, r = lane / 4, c = lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < kTileN / 8; ++j)
    if (8 * j + c < columns) {
      float* p = out + r * ld + 8 * j + c;
      if (r < rows) *reinterpret_cast<float2*>(p) = {d[4 * j], d[4 * j + 1]};
      if (r + 8 < rows) *reinterpret_cast<float2*>(p + 8 * ld) = {d[4 * j + 2], d[4 * j + 3]};
    }
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

template <Product P, class Out>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    grouped_kernel(const __grid_constant__ CUtensorMap map_a,
                   const __grid_constant__ CUtensorMap map_b,
                   const __grid_constant__ CUtensorMap map_out, Problem p) {
  extern __shared__ std::uint8_t raw[];
  std::uint8_t* shared = raw + (1024 - smem_address(raw) % 1024) % 1024;
  std::uint8_t* staging = shared + kStages * kStageBytes;
  auto* full = reinterpret_cast<std::uint64_t*>(staging + kStagingBytes);
  std::uint64_t* empty = full + kStages;
  auto* before = reinterpret_cast<int*>(empty + kStages);
  const int rank = static_cast<int>(cluster_cta_rank());
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], 16);  // 8 multiplying warps in each of the two blocks
    }
    fence_mbarrier_init();
  }
  using Tiles = Schedule<P>;
  if (warp == 1) {
    int sum = 0;
    for (int base = 0; base < p.experts; base += 32) {
      const int e = base + lane;
      int tiles = 0;
      if (e < p.experts)
        tiles = Tiles::tiles_m(p, p.offsets[e + 1] - p.offsets[e]) * Tiles::tiles_n(p);
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
  __syncthreads();
  cluster_sync();

  Tiles tiles{before, p.offsets, p};
  const int clusters = static_cast<int>(gridDim.x) / 2;
  int index = static_cast<int>(blockIdx.x) / 2;
  Tile tile{};
  int slot = 0;
  std::uint32_t phase = 0;

  if (warp < 4) {
    register_budget_lower<40>();
    if (warp == 0 && elect_one()) {
      for (; tiles.find(index, rank, tile); index += clusters) {
        for (int kb = 0; kb < tile.k_blocks; ++kb) {
          mbarrier_wait(&empty[slot], phase ^ 1);
          mbarrier_arrive_expect(&full[slot], kStageBytes);
          load_slab<P>(shared + slot * kStageBytes, &full[slot], &map_a, &map_b, tile, kb, rank);
          if (++slot == kStages) {
            slot = 0;
            phase ^= 1;
          }
        }
      }
    }
  } else {
    register_budget_raise<232>();
    const int group = warp / 4 - 1;  // rows 64·group .. of the tile
    constexpr int kTransA = P == Product::kWgrad ? 1 : 0;
    constexpr int kTransB = P == Product::kTransB ? 0 : 1;
    constexpr int kStepA = kTransA ? 2048 : 32, kStepB = kTransB ? 2048 : 32;
    float d[kTileN / 2];
    const auto release = [&](int s) {
      if (lane < 2) mbarrier_arrive_cluster(&empty[s], static_cast<std::uint32_t>(lane));
    };
    for (; tiles.find(index, rank, tile); index += clusters) {
      const auto next = [&] {
        if (++slot == kStages) {
          slot = 0;
          phase ^= 1;
        }
      };
      // Waits for slab kb; the expert's last one is cut to its rows.
      const auto arrived = [&](int kb) {
        mbarrier_wait(&full[slot], phase);
        std::uint8_t* stage = shared + slot * kStageBytes;
        if (P == Product::kWgrad && kb + 1 == tile.k_blocks && tile.k_last < kTileK)
          clear_rows(stage, tile.k_last, static_cast<int>(threadIdx.x) - 128);
        return stage;
      };
      if (tile.rows <= 64 * group || tile.n0 >= p.n) {  // nothing to write: only keeps step
        for (int kb = 0; kb < tile.k_blocks; ++kb) {
          arrived(kb);
          release(slot);
          next();
        }
        continue;
      }
      int held = slot;  // the slot the products in flight read
      for (int kb = 0; kb < tile.k_blocks; ++kb) {
        const std::uint8_t* a = arrived(kb) + group * kPiece;
        const std::uint8_t* b = shared + slot * kStageBytes + kPiecesA * kPiece;
        const std::uint64_t da = kTransA ? mn_major_descriptor(a, kPiece) : k_major_descriptor(a);
        const std::uint64_t db = kTransB ? mn_major_descriptor(b, kPiece) : k_major_descriptor(b);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < kTileK / 16; ++k)
          Wgmma<kTileN>::template ss<kTransA, kTransB>(d, advance(da, k * kStepA),
                                                       advance(db, k * kStepB), kb > 0 || k > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (kb > 0) release(held);
        held = slot;
        next();
      }
      wgmma_wait<0>();
      wgmma_pin(d);
      release(held);
      const int columns = p.n - tile.n0;
      if constexpr (P == Product::kWgrad) {
        add_rows<Out>(&map_out, d, staging + group * (kStagingBytes / 2), group, tile.n0,
                      tile.m0 + 64 * group, tile.expert, columns);
      } else {
        const int row = 64 * group + 16 * (warp % 4);
        Out* out =
            static_cast<Out*>(p.out) + static_cast<std::int64_t>(tile.m0 + row) * p.ld + tile.n0;
        store_rows(out, p.ld, d, staging + (warp - 4) * 2048, tile.rows - row, columns);
      }
    }
  }
  bulk_wait<0>();  // of the threads that issued copies
  __syncwarp();
  cluster_sync();  // a block stays while its partner may still arrive on its barriers
}

template <Product P, class Out>
void launch(Context& ctx, const CUtensorMap& a, const CUtensorMap& b, const CUtensorMap& out,
            const Problem& p) {
  const auto kernel = grouped_kernel<P, Out>;
  static const cudaError_t raised =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  CUDA_CHECK(raised);
  const int blocks = cuda_of(ctx, "GroupedMatmul").multiprocessors / 2 * 2;
  kernel<<<static_cast<unsigned>(blocks), kThreads, kSharedBytes, stream_of(ctx)>>>(a, b, out, p);
  CHECK_LAUNCH();
}

bool addressable(const Tensor& t) {
  if (t.dtype != DType::kBF16 || t.size(-1) % 8 != 0) return false;
  return t.rank == 2 ? tensor_map_possible(t.data, {t.stride(0) * 2})
                     : tensor_map_possible(t.data, {t.stride(0) * 2, t.stride(1) * 2});
}

CUtensorMap map_of(const Tensor& t) {
  if (t.rank == 2)
    return make_tensor_map(TensorMapType::kBF16, t.data, {t.size(1), t.size(0)}, {t.stride(0)},
                           {64, 64}, TensorMapSwizzle::k128);
  return make_tensor_map(TensorMapType::kBF16, t.data, {t.size(2), t.size(1), t.size(0)},
                         {t.stride(1), t.stride(0)}, {64, 64, 1}, TensorMapSwizzle::k128);
}

// As three dimensions, the outermost of size 1: the second operand is always loaded that way.
CUtensorMap map_of_rows(const Tensor& t) {
  return make_tensor_map(TensorMapType::kBF16, t.data, {t.size(1), t.size(0), 1},
                         {t.stride(0), t.stride(0) * t.size(0)}, {64, 64, 1},
                         TensorMapSwizzle::k128);
}

}  // namespace

bool grouped_matmul_sm90(Context& ctx, const GroupedMatmul& op) {
  const std::int64_t experts = op.b.size(0);
  if (!addressable(op.a) || !addressable(op.b) || experts > kMaxExperts || !packs(op.out, 8))
    return false;
  const Problem p{.offsets = op.offsets.as<const std::int32_t>(),
                  .out = op.out.data,
                  .ld = op.out.stride(0),
                  .experts = static_cast<int>(experts),
                  .m = 0,
                  .n = static_cast<int>(op.out.size(1)),
                  .k = static_cast<int>(op.a.size(1))};
  const CUtensorMap a = map_of(op.a), b = map_of(op.b);
  const bool wide = op.out.dtype == DType::kF32;
  if (op.trans_b && wide)
    launch<Product::kTransB, float>(ctx, a, b, a, p);
  else if (op.trans_b)
    launch<Product::kTransB, bf16>(ctx, a, b, a, p);
  else if (wide)
    launch<Product::kPlain, float>(ctx, a, b, a, p);
  else
    launch<Product::kPlain, bf16>(ctx, a, b, a, p);
  return true;
}

bool grouped_wgrad_sm90(Context& ctx, const GroupedMatmulWgrad& op) {
  const std::int64_t experts = op.dw.size(0);
  if (!addressable(op.dy) || !addressable(op.x) || experts > kMaxExperts ||
      !packs(op.dw, 16 / static_cast<int>(size_of(op.dw.dtype))))
    return false;
  const Problem p{.offsets = op.offsets.as<const std::int32_t>(),
                  .out = op.dw.data,
                  .ld = op.dw.stride(1),
                  .experts = static_cast<int>(experts),
                  .m = static_cast<int>(op.dw.size(1)),
                  .n = static_cast<int>(op.dw.size(2)),
                  .k = 0};
  const CUtensorMap a = map_of(op.dy), b = map_of_rows(op.x);
  const bool wide = op.dw.dtype == DType::kF32;
  const CUtensorMap out = make_tensor_map(wide ? TensorMapType::kF32 : TensorMapType::kBF16,
                                          op.dw.data, {op.dw.size(2), op.dw.size(1), op.dw.size(0)},
                                          {op.dw.stride(1), op.dw.stride(0)},
                                          {wide ? 32 : 64, 64, 1}, TensorMapSwizzle::k128);
  if (wide)
    launch<Product::kWgrad, float>(ctx, a, b, out, p);
  else
    launch<Product::kWgrad, bf16>(ctx, a, b, out, p);
  return true;
}

}  // namespace glmtune::ops
