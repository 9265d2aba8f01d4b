#pragma once
// The Hopper instructions (sm_90a) the kernels share, one thin wrapper each: mbarriers, the bulk
// tensor copy engine (TMA), cp.async, clusters, register budgets. The matrix instructions are in
// sm90_wgmma.cuh, host-side tensor maps in tensor_map.h. PTX ISA 9.0 sections 9.7.9, 9.7.13.
#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

namespace glmtune::sm90 {

__device__ __forceinline__ std::uint32_t smem_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// True in exactly one lane of a converged warp, the same one each time.
__device__ __forceinline__ bool elect_one() {
  std::uint32_t elected = 0;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(elected));
  return elected != 0;
}

// ---- mbarriers: phases with expected bytes. A waiter passes the parity of the phase it waits for;
// a fresh barrier completes phase 0 first, so producers start by waiting for parity 1 (passes).

__device__ __forceinline__ void mbarrier_init(std::uint64_t* bar, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_address(bar)), "r"(arrivals));
}
// After the inits, before any other thread (of the cluster) or the copy engine uses the barriers;
// followed by __syncthreads() or cluster_sync().
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(std::uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_address(bar)) : "memory");
}
// Arrives on the barrier at the same address in CTA `cta` of the cluster. For slots the tensor
// cores have read and the copy engine writes next; ordinary writes another CTA is to see need a
// fence (a .release.cluster arrival would cost a device-wide one every time).
__device__ __forceinline__ void mbarrier_arrive_cluster(std::uint64_t* bar, std::uint32_t cta) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(smem_address(bar)),
      "r"(cta)
      : "memory");
}
// Arrives once and adds `bytes` to what the phase waits for.
__device__ __forceinline__ void mbarrier_arrive_expect(std::uint64_t* bar, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_address(bar)),
               "r"(bytes)
               : "memory");
}
// Whether the phase is complete, without waiting.
__device__ __forceinline__ bool mbarrier_test(std::uint64_t* bar, std::uint32_t parity) {
  std::uint32_t done = 0;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(smem_address(bar)), "r"(parity)
      : "memory");
  return done != 0;
}
__device__ __forceinline__ bool mbarrier_try_wait(std::uint64_t* bar, std::uint32_t parity) {
  std::uint32_t done = 0;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(smem_address(bar)), "r"(parity)
      : "memory");
  return done != 0;
}
__device__ __forceinline__ void mbarrier_wait(std::uint64_t* bar, std::uint32_t parity) {
  while (!mbarrier_try_wait(bar, parity)) {
  }
}
// The same, acquiring what other CTAs of the cluster released (for barriers they arrive on).
__device__ __forceinline__ void mbarrier_wait_cluster(std::uint64_t* bar, std::uint32_t parity) {
  std::uint32_t done = 0;
  while (done == 0)
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(smem_address(bar)), "r"(parity)
        : "memory");
}

// ---- ordering between ordinary shared-memory stores and the tensor cores or the copy engine:
// each writing thread fences, then a barrier, then the asynchronous reader.
__device__ __forceinline__ void fence_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- bulk tensor copies; coordinates are element indices, innermost first.

__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// L2 policies for the `policy` argument below (createpolicy's fixed encodings).
inline constexpr std::uint64_t kEvictNormal = 0x1000000000000000ull;
inline constexpr std::uint64_t kEvictFirst = 0x12F0000000000000ull;
inline constexpr std::uint64_t kEvictLast = 0x14F0000000000000ull;

__device__ __forceinline__ void tma_load_2d(void* dst, const CUtensorMap* map, std::uint64_t* bar,
                                            int x, int y, std::uint64_t policy = kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(smem_address(dst)),
      "l"(map), "r"(smem_address(bar)), "r"(x), "r"(y), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void tma_load_3d(void* dst, const CUtensorMap* map, std::uint64_t* bar,
                                            int x, int y, int z,
                                            std::uint64_t policy = kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(smem_address(dst)),
      "l"(map), "r"(smem_address(bar)), "r"(x), "r"(y), "r"(z), "l"(policy)
      : "memory");
}
// The box lands at the same offset, and counts on the same barrier, in every CTA of `mask`.
__device__ __forceinline__ void tma_load_2d_multicast(void* dst, const CUtensorMap* map,
                                                      std::uint64_t* bar, int x, int y,
                                                      std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(smem_address(dst)),
      "l"(map), "r"(smem_address(bar)), "r"(x), "r"(y), "h"(mask)
      : "memory");
}
__device__ __forceinline__ void tma_load_3d_multicast(void* dst, const CUtensorMap* map,
                                                      std::uint64_t* bar, int x, int y, int z,
                                                      std::uint16_t mask,
                                                      std::uint64_t policy = kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(
          smem_address(dst)),
      "l"(map), "r"(smem_address(bar)), "r"(x), "r"(y), "r"(z), "h"(mask), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void tma_store_2d(const CUtensorMap* map, const void* src, int x,
                                             int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
      "r"(smem_address(src)), "r"(x), "r"(y)
      : "memory");
}
__device__ __forceinline__ void tma_store_3d(const CUtensorMap* map, const void* src, int x, int y,
                                             int z, std::uint64_t policy = kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint "
      "[%0, {%2, %3, %4}], [%1], %5;" ::"l"(map),
      "r"(smem_address(src)), "r"(x), "r"(y), "r"(z), "l"(policy)
      : "memory");
}
// Adds the box to global memory in the map's type; one rounding an element.
__device__ __forceinline__ void tma_reduce_add_3d(const CUtensorMap* map, const void* src, int x,
                                                  int y, int z) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], "
      "[%1];" ::"l"(map),
      "r"(smem_address(src)), "r"(x), "r"(y), "r"(z)
      : "memory");
}
// Brings the box into L2.
__device__ __forceinline__ void tma_prefetch_3d(const CUtensorMap* map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map), "r"(x),
               "r"(y), "r"(z)
               : "memory");
}
// Contiguous bytes (a multiple of 16, 16-byte aligned on both sides).
__device__ __forceinline__ void bulk_load(void* dst, const void* src, std::uint32_t bytes,
                                          std::uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(smem_address(dst)),
      "l"(src), "r"(bytes), "r"(smem_address(bar))
      : "memory");
}
__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// At most `kPending` store groups of this thread still read shared memory.
template <int kPending>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
template <int kPending>
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- cp.async, for rows gathered by index (Hopper's copy engine has no row gather).

// 16 bytes through L2 only; zeros where `valid` is false (src must still be a readable address).
__device__ __forceinline__ void cp_async_16(void* dst, const void* src, bool valid = true) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(smem_address(dst)),
               "l"(src), "r"(valid ? 16 : 0)
               : "memory");
}
// Arrives (counted among the barrier's expected arrivals) once this thread's copies have landed.
__device__ __forceinline__ void cp_async_arrive(std::uint64_t* bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(smem_address(bar))
               : "memory");
}
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- clusters

__device__ __forceinline__ std::uint32_t cluster_cta_rank() {
  std::uint32_t rank = 0;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Writes a word to the same address in CTA `cta` of the cluster, 4 bytes counted on its barrier.
__device__ __forceinline__ void store_async_cluster(int* dst, int value, std::uint64_t* bar,
                                                    std::uint32_t cta) {
  asm volatile(
      "{\n.reg .b32 to, counts;\nmapa.shared::cluster.u32 to, %0, %3;\n"
      "mapa.shared::cluster.u32 counts, %1, %3;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [to], %2, [counts];\n}\n" ::"r"(
          smem_address(dst)),
      "r"(smem_address(bar)), "r"(value), "r"(cta)
      : "memory");
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

// ---- warp groups: registers and barriers among part of a block

// Effective only in kernels with __launch_bounds__(threads, 1); multiples of 8.
template <int kRegisters>
__device__ __forceinline__ void register_budget_raise() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void register_budget_lower() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
// Barrier `id` (1..15; 0 is __syncthreads) among `threads` threads.
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- 8x8 matrix fragments of 16-bit values to shared memory (the accumulator layout of wgmma).

__device__ __forceinline__ void stmatrix_x4(void* dst, std::uint32_t a, std::uint32_t b,
                                            std::uint32_t c, std::uint32_t d) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem_address(dst)),
      "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}
__device__ __forceinline__ void stmatrix_x4_transposed(void* dst, std::uint32_t a, std::uint32_t b,
                                                       std::uint32_t c, std::uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   smem_address(dst)),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
// Two floats to two bf16 in one register, `low` in the lower half (the lower column).
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t r = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

}  // namespace glmtune::sm90
