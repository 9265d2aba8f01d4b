// Grouped products on Hopper's tensor cores, out[r] = a[r] · b[e] or b[e]ᵀ: a persistent kernel. Of
// a block's three warpgroups one thread feeds a ring of 64-deep operand slabs through the copy
// engine, two warpgroups multiply 64 rows each, and skip what lies past an expert's last row.
#include "ops/grouped_sm90.cuh"

namespace glmtune::ops {
namespace {

using namespace grouped;

constexpr int kStages = 4;
constexpr int kThreads = 384;
constexpr int kStagingBytes = 8 * 2048;  // results on their way out: 16 rows of 128 bytes a warp
using Memory = SharedMemory<kStages, kStageBytes, kStagingBytes>;

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

template <Product P, class Out>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    grouped_kernel(const __grid_constant__ CUtensorMap map_a,
                   const __grid_constant__ CUtensorMap map_b, Problem p) {
  extern __shared__ std::uint8_t raw[];
  Memory memory(raw);
  memory.begin<Schedule<P>>(p, 16);  // 8 multiplying warps in each of the two blocks
  const int rank = static_cast<int>(cluster_cta_rank());
  const int warp = static_cast<int>(threadIdx.x) / 32;

  Schedule<P> tiles{memory.before, p};

  if (warp < 4) {
    register_budget_lower<40>();
    if (warp == 0 && elect_one())
      feed(tiles, Counted(p.counter, memory.told, memory.arrived, rank), rank, memory, &map_a,
           &map_b, kEvictNormal, [](const Tile&) {});
  } else {
    register_budget_raise<232>();
    const int group = warp / 4 - 1;  // rows 64·group .. of the tile
    Ring<kStages> ring;
    Ring<kTold> turn;
    float d[kTileN / 2];
    for (Tile tile{}; next_tile(tiles, memory, ring, turn, rank, tile);) {
      if (tile.rows <= 64 * group || tile.n0 >= p.n) {  // nothing to write: only keeps step
        for (int kb = 0; kb < tile.k_blocks; ++kb) {
          mbarrier_wait(&memory.full[ring.slot], ring.phase);
          release_slab(&memory.empty[ring.slot]);
          ring.next();
        }
        continue;
      }
      multiply_tile<P>(d, memory, ring, tile, group);
      const int row = 64 * group + 16 * (warp % 4);
      Out* out =
          static_cast<Out*>(p.out) + static_cast<std::int64_t>(tile.m0 + row) * p.ld + tile.n0;
      store_rows(out, p.ld, d, memory.staging + (warp - 4) * 2048, tile.rows - row, p.n - tile.n0);
    }
  }
  __syncwarp();
  cluster_sync();  // a block stays while its partner may still arrive on its barriers
}

CUtensorMap map_of(const Tensor& t) {
  if (t.rank == 2)
    return make_tensor_map(TensorMapType::kBF16, t.data, {t.size(1), t.size(0)}, {t.stride(0)},
                           {64, 64}, TensorMapSwizzle::k128);
  return make_tensor_map(TensorMapType::kBF16, t.data, {t.size(2), t.size(1), t.size(0)},
                         {t.stride(1), t.stride(0)}, {64, 64, 1}, TensorMapSwizzle::k128);
}

}  // namespace

bool grouped_matmul_sm90(Context& ctx, const GroupedMatmul& op, Tensor workspace) {
  const std::int64_t experts = op.b.size(0);
  if (!addressable(op.a) || !addressable(op.b) || experts > kMaxExperts || !packs(op.out, 8))
    return false;
  const Problem p{.offsets = op.offsets.as<const std::int32_t>(),
                  .out = op.out.data,
                  .ld = op.out.stride(0),
                  .experts = static_cast<int>(experts),
                  .m = 0,
                  .n = static_cast<int>(op.out.size(1)),
                  .k = static_cast<int>(op.a.size(1)),
                  .counter = zeroed_counter(ctx, workspace)};
  const CUtensorMap a = map_of(op.a), b = map_of(op.b);
  const bool wide = op.out.dtype == DType::kF32;
  const auto go = [&](auto kernel) { launch(ctx, kernel, kThreads, Memory::kBytes, p, a, b); };
  if (op.trans_b)
    go(wide ? grouped_kernel<Product::kTransB, float> : grouped_kernel<Product::kTransB, bf16>);
  else
    go(wide ? grouped_kernel<Product::kPlain, float> : grouped_kernel<Product::kPlain, bf16>);
  return true;
}

}  // namespace glmtune::ops
