// Weight gradients of the grouped products on Hopper's tensor cores, dw[e] += dyᵀ x over e's rows:
// a persistent kernel like the products', 64 rows of a tile to each of two warpgroups. The
// gradients so far come through shared memory in boxes of 128 bytes a row: the copy engine brings
// them while the products run, the multiplying warps add to them in place, the copy engine takes
// them back. One addition and one rounding an element and launch. What need not be read goes
// through grouped_wgrad_staged_sm90.cu.
#include "ops/grouped_sm90.cuh"

namespace glmtune::ops {
namespace {

using namespace grouped;

constexpr int kStages = 3;
constexpr int kThreads = 384;
constexpr int kSlots = 5;  // boxes of a warpgroup in flight
// Mean rows of an expert from which bf16 gradients are faster when the copy engine adds to them.
constexpr std::int64_t kManyRows = 320;
constexpr int kTogether = 2;  // boxes handed over at once
constexpr int kBoxBytes = 64 * 128;
using Tiles = Schedule<Product::kWgrad>;
using Memory = SharedMemory<kStages, kStageBytes, 2 * kSlots*(kBoxBytes + 16)>;

// The boxes of one warpgroup, and the barriers of their slots.
struct Slots {
  std::uint8_t* boxes;
  std::uint64_t *loaded, *added;

  __device__ Slots(const Memory& memory, int group) {
    auto* barriers = reinterpret_cast<std::uint64_t*>(memory.staging + 2 * kSlots * kBoxBytes);
    boxes = memory.staging + group * kSlots * kBoxBytes;
    loaded = barriers + group * 2 * kSlots;
    added = loaded + kSlots;
  }
  __device__ std::uint8_t* box(int slot) const { return boxes + slot * kBoxBytes; }
};

template <class Out>
constexpr int kBoxColumns = 128 / static_cast<int>(sizeof(Out));
template <class Out>
constexpr int kBoxes = kTileN / kBoxColumns<Out>;  // of a warpgroup's share of a tile

// Where a warpgroup's boxes lie in the gradients, tile by tile.
template <class Out>
struct BoxWalk {
  Tiles tiles;
  int index, clusters, rank;
  Tile tile{};
  int box = 0;
  bool more;

  __device__ BoxWalk(const Tiles& all, int first, int step, int rank_)
      : tiles(all), index(first), clusters(step), rank(rank_) {
    more = tiles.find(index, rank, tile);
  }
  __device__ int column() const { return tile.n0 + box * kBoxColumns<Out>; }
  __device__ void next() {
    if (++box < kBoxes<Out>) return;
    box = 0;
    index += clusters;
    more = tiles.find(index, rank, tile);
  }
};

// One thread moves a warpgroup's boxes: a slot is filled again as soon as its box has left it.
// (Written gradients leave L2 first: operands are read again, they are not.)
template <class Out>
__device__ __forceinline__ void move_boxes(const CUtensorMap* map, BoxWalk<Out> ahead,
                                           const Slots& slots, int group) {
  BoxWalk<Out> here = ahead;
  const auto fill = [&](int slot) {
    if (!ahead.more) return;
    mbarrier_arrive_expect(&slots.loaded[slot], kBoxBytes);
    tma_load_3d(slots.box(slot), map, &slots.loaded[slot], ahead.column(),
                ahead.tile.m0 + 64 * group, ahead.tile.expert);
    ahead.next();
  };
  for (int slot = 0; slot < kSlots; ++slot) fill(slot);
  Ring<kSlots> ring;
  int leaving = -1;  // the slot whose box is on its way out
  for (; here.more; here.next()) {
    if (leaving >= 0 && !mbarrier_test(&slots.added[ring.slot], ring.phase)) {
      bulk_wait_read<0>();
      fill(leaving);
      leaving = -1;
    }
    mbarrier_wait(&slots.added[ring.slot], ring.phase);
    tma_store_3d(map, slots.box(ring.slot), here.column(), here.tile.m0 + 64 * group,
                 here.tile.expert, kEvictFirst);
    bulk_commit();
    if (leaving >= 0) {
      bulk_wait_read<1>();
      fill(leaving);
    }
    leaving = ring.slot;
    ring.next();
  }
  bulk_wait<0>();
}

// A thread's place in a box: accumulators (row l/4, columns 2(l%4), ..) of a warp's first 16 rows.
// Lanes of odd rows take float32 columns in another order, so that no two rows meet in a bank.
template <class Out>
struct Place {
  std::uint32_t at;
  bool swapped;

  __device__ Place(int warp, int lane) : swapped(sizeof(Out) == 4 && lane / 4 % 2 != 0) {
    const std::uint32_t row = 16 * warp + lane / 4;
    at = swizzle_128(row, lane % 4 * 2 * sizeof(Out)) ^ (swapped ? 64 : 0);
  }
};

// 64 rows x 32 columns. All old values are read before the first sum is written: the compiler does
// not see that they lie apart.
__device__ __forceinline__ void add_box(const float* d, std::uint8_t* box, Place<float> place) {
  float2 old[8];
#pragma unroll
  for (int i = 0; i < 8; ++i)  // group i / 2 of 8 columns, rows l/4 and l/4 + 8
    old[i] = *reinterpret_cast<float2*>(box + (place.at ^ (i / 2 * 32)) + i % 2 * 1024);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float *v = d + 2 * i, *w = d + 2 * (i ^ 4);
    *reinterpret_cast<float2*>(box + (place.at ^ (i / 2 * 32)) + i % 2 * 1024) = {
        old[i].x + (place.swapped ? w[0] : v[0]), old[i].y + (place.swapped ? w[1] : v[1])};
  }
}

// 64 rows x 64 columns.
__device__ __forceinline__ void add_box(const float* d, std::uint8_t* box, Place<bf16> place) {
  __nv_bfloat162 old[16];
#pragma unroll
  for (int i = 0; i < 16; ++i)
    old[i] = *reinterpret_cast<__nv_bfloat162*>(box + (place.at ^ (i / 2 * 16)) + i % 2 * 1024);
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float2 v = __bfloat1622float2(old[i]);
    *reinterpret_cast<std::uint32_t*>(box + (place.at ^ (i / 2 * 16)) + i % 2 * 1024) =
        pack_bf16(v.x + d[2 * i], v.y + d[2 * i + 1]);
  }
}

template <class Out>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    wgrad_kernel(const __grid_constant__ CUtensorMap map_dy,
                 const __grid_constant__ CUtensorMap map_x,
                 const __grid_constant__ CUtensorMap map_dw, Problem p) {
  extern __shared__ std::uint8_t raw[];
  Memory memory(raw);
  if (threadIdx.x < 2) {
    const Slots slots(memory, static_cast<int>(threadIdx.x));
    for (int s = 0; s < kSlots; ++s) {
      mbarrier_init(&slots.loaded[s], 1);
      mbarrier_init(&slots.added[s], 4);  // warps
    }
    fence_mbarrier_init();
  }
  memory.begin<Tiles>(p, 16);  // 8 multiplying warps in each of the two blocks
  const int rank = static_cast<int>(cluster_cta_rank());
  const int warp = static_cast<int>(threadIdx.x) / 32;

  Tiles tiles{memory.before, p};
  const int clusters = static_cast<int>(gridDim.x) / 2;
  int index = static_cast<int>(blockIdx.x) / 2;
  if (warp < 4) {
    register_budget_lower<40>();
    if (warp == 0 && elect_one())
      feed(tiles, Strided{index, clusters}, rank, memory, &map_dy, &map_x, kEvictLast,
           [](const Tile&) {});
    if (warp >= 2 && elect_one())
      move_boxes(&map_dw, BoxWalk<Out>(tiles, index, clusters, rank), Slots(memory, warp - 2),
                 warp - 2);
  } else {
    register_budget_raise<232>();
    const int group = warp / 4 - 1, lane = static_cast<int>(threadIdx.x) % 32;
    const Slots slots(memory, group);
    const Place<Out> place(warp % 4, lane);
    Ring<kStages> ring;
    Ring<kSlots> boxes;
    float d[kTileN / 2];
    for (Tile tile{}; tiles.find(index, rank, tile); index += clusters) {
      multiply_tile<Product::kWgrad>(d, memory, ring, tile, group);
#pragma unroll
      for (int box = 0; box < kBoxes<Out>; box += kTogether) {
        int mine = 0;  // the slot of which this lane tells
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          mbarrier_wait(&slots.loaded[boxes.slot], boxes.phase);
          add_box(d + (box + i) * (kTileN / 2 / kBoxes<Out>), slots.box(boxes.slot), place);
          if (lane == i) mine = boxes.slot;
          boxes.next();
        }
        fence_async_shared();
        __syncwarp();
        if (lane < kTogether) mbarrier_arrive(&slots.added[mine]);
      }
    }
  }
  __syncwarp();
  cluster_sync();  // a block stays while its partner may still arrive on its barriers
}

}  // namespace

bool grouped_wgrad_sm90(Context& ctx, const GroupedMatmulWgrad& op, Tensor workspace) {
  const std::int64_t experts = op.dw.size(0);
  const bool wide = op.dw.dtype == DType::kF32;
  if (!addressable(op.dy) || !addressable(op.x) || experts > kMaxExperts ||
      !packs(op.dw, wide ? 4 : 8))
    return false;
  // The second operand as three dimensions, the outermost of size 1: it is always loaded that way.
  WgradLaunch go{
      .dy = make_tensor_map(TensorMapType::kBF16, op.dy.data, {op.dy.size(1), op.dy.size(0)},
                            {op.dy.stride(0)}, {64, 64}, TensorMapSwizzle::k128),
      .x = make_tensor_map(TensorMapType::kBF16, op.x.data, {op.x.size(1), op.x.size(0), 1},
                           {op.x.stride(0), op.x.stride(0) * op.x.size(0)}, {64, 64, 1},
                           TensorMapSwizzle::k128),
      .dw = make_tensor_map(wide ? TensorMapType::kF32 : TensorMapType::kBF16, op.dw.data,
                            {op.dw.size(2), op.dw.size(1), experts},
                            {op.dw.stride(1), op.dw.stride(0)}, {wide ? 32 : 64, 64, 1},
                            TensorMapSwizzle::k128),
      .p = {.offsets = op.offsets.as<const std::int32_t>(),
            .out = op.dw.data,
            .ld = op.dw.stride(1),
            .experts = static_cast<int>(experts),
            .m = static_cast<int>(op.dw.size(1)),
            .n = static_cast<int>(op.dw.size(2)),
            .k = 0},
      .wide = wide,
      .overwrite = op.overwrite};
  if (op.overwrite || (!wide && op.dy.size(0) >= kManyRows * experts)) {
    go.p.counter = zeroed_counter(ctx, workspace);
    wgrad_staged(ctx, go);
    return true;
  }
  launch(ctx, wide ? wgrad_kernel<float> : wgrad_kernel<bf16>, kThreads, Memory::kBytes, go.p,
         go.dy, go.x, go.dw);
  return true;
}

}  // namespace glmtune::ops
