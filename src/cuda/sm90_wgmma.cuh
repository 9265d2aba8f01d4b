#pragma once
// wgmma: D[64 x N] (fp32, registers of one warpgroup) += A[64 x 16] · B[16 x N], bf16 operands.
// B comes from shared memory, A from shared memory or registers. PTX ISA 9.0 section 9.7.15.
//
// Tiles in shared memory are written by TMA with the 128-byte swizzle (or by hand with
// swizzle_128 below) at 1024-byte aligned addresses, in one of two forms:
//  - K-major:  rows of 64 k-values (128 bytes) per m or n; 8 rows make an atom of 1024 bytes.
//    Along m or n the atoms follow each other. Step k by 16: +32 bytes.
//  - MN-major: rows of 64 m- or n-values (128 bytes) per k; 8 k-rows make an atom. Wider than 64:
//    one such panel after another, `panel_bytes` (= k rows · 128) apart. Step k by 16: +2048 bytes.
//
// Accumulator layout: thread t of the warpgroup, warp w = t / 32, lane l = t % 32, holds
//   d[4j + 0, 1] = D[16w + l/4][8j + 2(l%4) + 0, 1],   d[4j + 2, 3] = the same 8 rows below.
// A from registers has, per 16 k-values, the layout of two accumulator blocks j packed to bf16:
//   a[0] = (row l/4, k 2(l%4)), a[1] = (row + 8, same k), a[2] = (row, k + 8), a[3] = (row+8, k+8).
#include <cstdint>

#include "cuda/sm90.cuh"

namespace glmtune::sm90 {

// Byte offset of (row, byte column < 128) in a 128-byte swizzled tile of 128-byte rows.
__device__ __forceinline__ std::uint32_t swizzle_128(std::uint32_t row, std::uint32_t byte) {
  return row * 128 + (byte ^ ((row & 7) << 4));
}

namespace detail {
__device__ __forceinline__ std::uint64_t descriptor(const void* tile, std::uint32_t leading_bytes,
                                                    std::uint32_t stride_bytes) {
  constexpr std::uint64_t kSwizzle128 = 1ull << 62;
  return kSwizzle128 | (static_cast<std::uint64_t>((smem_address(tile) & 0x3ffffu) >> 4)) |
         (static_cast<std::uint64_t>(leading_bytes >> 4) << 16) |
         (static_cast<std::uint64_t>(stride_bytes >> 4) << 32);
}
}  // namespace detail

__device__ __forceinline__ std::uint64_t k_major_descriptor(const void* tile) {
  return detail::descriptor(tile, 16, 1024);  // the leading offset is not used
}
__device__ __forceinline__ std::uint64_t mn_major_descriptor(const void* tile,
                                                             std::uint32_t panel_bytes) {
  return detail::descriptor(tile, panel_bytes, 1024);
}
// A descriptor moved by `bytes` (a multiple of 16), for the k-steps.
__device__ __forceinline__ std::uint64_t advance(std::uint64_t descriptor, std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

// Before the first wgmma of a batch, and after ordinary writes to its registers.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving accesses to the accumulator across this point.
template <int kCount>
__device__ __forceinline__ void wgmma_pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Wgmma<N>::ss<tA, tB>(d, a, b, accumulate): tA, tB = 1 for an MN-major operand.
// Wgmma<N>::rs<tB>(d, a, b, accumulate): A from registers. accumulate = 0 overwrites d.
template <int N>
struct Wgmma;

#define GLMTUNE_R0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define GLMTUNE_R1 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define GLMTUNE_R2 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define GLMTUNE_R3 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define GLMTUNE_R4 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define GLMTUNE_R5 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define GLMTUNE_R6 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define GLMTUNE_R7 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define GLMTUNE_R8 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define GLMTUNE_R9 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define GLMTUNE_R10 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define GLMTUNE_R11 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define GLMTUNE_R12 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define GLMTUNE_R13 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define GLMTUNE_R14 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define GLMTUNE_R15 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define GLMTUNE_R_16 GLMTUNE_R0
#define GLMTUNE_R_32 GLMTUNE_R_16 GLMTUNE_R1
#define GLMTUNE_R_48 GLMTUNE_R_32 GLMTUNE_R2
#define GLMTUNE_R_64 GLMTUNE_R_48 GLMTUNE_R3
#define GLMTUNE_R_80 GLMTUNE_R_64 GLMTUNE_R4
#define GLMTUNE_R_96 GLMTUNE_R_80 GLMTUNE_R5
#define GLMTUNE_R_112 GLMTUNE_R_96 GLMTUNE_R6
#define GLMTUNE_R_128 GLMTUNE_R_112 GLMTUNE_R7
#define GLMTUNE_R_144 GLMTUNE_R_128 GLMTUNE_R8
#define GLMTUNE_R_160 GLMTUNE_R_144 GLMTUNE_R9
#define GLMTUNE_R_176 GLMTUNE_R_160 GLMTUNE_R10
#define GLMTUNE_R_192 GLMTUNE_R_176 GLMTUNE_R11
#define GLMTUNE_R_208 GLMTUNE_R_192 GLMTUNE_R12
#define GLMTUNE_R_224 GLMTUNE_R_208 GLMTUNE_R13
#define GLMTUNE_R_240 GLMTUNE_R_224 GLMTUNE_R14
#define GLMTUNE_R_256 GLMTUNE_R_240 GLMTUNE_R15
#define GLMTUNE_F8(b)                                                                         \
  "+f"(d[b]), "+f"(d[b + 1]), "+f"(d[b + 2]), "+f"(d[b + 3]), "+f"(d[b + 4]), "+f"(d[b + 5]), \
      "+f"(d[b + 6]), "+f"(d[b + 7])
#define GLMTUNE_F_16 GLMTUNE_F8(0)
#define GLMTUNE_F_32 GLMTUNE_F_16, GLMTUNE_F8(8)
#define GLMTUNE_F_48 GLMTUNE_F_32, GLMTUNE_F8(16)
#define GLMTUNE_F_64 GLMTUNE_F_48, GLMTUNE_F8(24)
#define GLMTUNE_F_80 GLMTUNE_F_64, GLMTUNE_F8(32)
#define GLMTUNE_F_96 GLMTUNE_F_80, GLMTUNE_F8(40)
#define GLMTUNE_F_112 GLMTUNE_F_96, GLMTUNE_F8(48)
#define GLMTUNE_F_128 GLMTUNE_F_112, GLMTUNE_F8(56)
#define GLMTUNE_F_144 GLMTUNE_F_128, GLMTUNE_F8(64)
#define GLMTUNE_F_160 GLMTUNE_F_144, GLMTUNE_F8(72)
#define GLMTUNE_F_176 GLMTUNE_F_160, GLMTUNE_F8(80)
#define GLMTUNE_F_192 GLMTUNE_F_176, GLMTUNE_F8(88)
#define GLMTUNE_F_208 GLMTUNE_F_192, GLMTUNE_F8(96)
#define GLMTUNE_F_224 GLMTUNE_F_208, GLMTUNE_F8(104)
#define GLMTUNE_F_240 GLMTUNE_F_224, GLMTUNE_F8(112)
#define GLMTUNE_F_256 GLMTUNE_F_240, GLMTUNE_F8(120)

// p0 .. p7: the numbers of the operands that follow the accumulators (p0 = N / 2).
#define GLMTUNE_DEFINE_WGMMA(N, p0, p1, p2, p3, p4, p5, p6)                                        \
  template <>                                                                                      \
  struct Wgmma<N> {                                                                                \
    template <int kTransA, int kTransB>                                                            \
    static __device__ __forceinline__ void ss(float (&d)[N / 2], std::uint64_t a, std::uint64_t b, \
                                              int accumulate) {                                    \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p2                                        \
                   ", 0;\n"                                                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" GLMTUNE_R_##N      \
                   "}, %" #p0 ", %" #p1 ", p, 1, 1, %" #p3 ", %" #p4 ";\n}\n"                      \
                   : GLMTUNE_F_##N                                                                 \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransA), "n"(kTransB));                 \
    }                                                                                              \
    template <int kTransB>                                                                         \
    static __device__ __forceinline__ void rs(float (&d)[N / 2], const std::uint32_t (&a)[4],      \
                                              std::uint64_t b, int accumulate) {                   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p5                                        \
                   ", 0;\n"                                                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" GLMTUNE_R_##N      \
                   "}, {%" #p0 ",%" #p1 ",%" #p2 ",%" #p3 "}, %" #p4 ", p, 1, 1, %" #p6 ";\n}\n"   \
                   : GLMTUNE_F_##N                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),          \
                     "n"(kTransB));                                                                \
    }                                                                                              \
  };
GLMTUNE_DEFINE_WGMMA(16, 8, 9, 10, 11, 12, 13, 14)
GLMTUNE_DEFINE_WGMMA(32, 16, 17, 18, 19, 20, 21, 22)
GLMTUNE_DEFINE_WGMMA(48, 24, 25, 26, 27, 28, 29, 30)
GLMTUNE_DEFINE_WGMMA(64, 32, 33, 34, 35, 36, 37, 38)
GLMTUNE_DEFINE_WGMMA(80, 40, 41, 42, 43, 44, 45, 46)
GLMTUNE_DEFINE_WGMMA(96, 48, 49, 50, 51, 52, 53, 54)
GLMTUNE_DEFINE_WGMMA(112, 56, 57, 58, 59, 60, 61, 62)
GLMTUNE_DEFINE_WGMMA(128, 64, 65, 66, 67, 68, 69, 70)
GLMTUNE_DEFINE_WGMMA(144, 72, 73, 74, 75, 76, 77, 78)
GLMTUNE_DEFINE_WGMMA(160, 80, 81, 82, 83, 84, 85, 86)
GLMTUNE_DEFINE_WGMMA(192, 96, 97, 98, 99, 100, 101, 102)
GLMTUNE_DEFINE_WGMMA(224, 112, 113, 114, 115, 116, 117, 118)
GLMTUNE_DEFINE_WGMMA(256, 128, 129, 130, 131, 132, 133, 134)
#undef GLMTUNE_DEFINE_WGMMA

}  // namespace glmtune::sm90
