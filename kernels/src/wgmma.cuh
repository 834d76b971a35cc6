// wgmma: D[64][N] += A[64][32 bytes of K] * B[N][32 bytes of K]', D in f32 registers of a warpgroup.
//
// One step takes 32 bytes of K (k8 tf32, k16 f16/bf16, k32 fp8). Operands lie in shared memory in the
// 128-byte swizzle that TMA writes:
//   K-major   rows of 128 bytes of K; 8 rows are one 1024-byte atom. Step j starts 32*j bytes on.
//   MN-major  slabs of 64 elements of M (or N); in a slab one 128-byte line per k (16-bit types only).
//             Step j starts 16 lines on; the leading offset goes from slab to slab.
// Accumulator i of thread t of the warpgroup is element
//   row = 16*(t/32) + (t%32)/4 + 8*((i/2)%2),  col = 8*(i/4) + 2*(t%4) + i%2.
//
// The asm needs its register list spelled out for each N, hence the macros; nothing else uses them.
// Source: PTX ISA, "Asynchronous warpgroup level matrix instructions".
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

namespace orrery::kernels {

struct Tf32 {  // stored as float; the tensor core drops the low 13 bits
  float value;
};

namespace ptx {

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving uses of an accumulator across the asynchronous region.
template <int kCount>
__device__ __forceinline__ void wgmma_pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i++) asm volatile("" : "+f"(d[i])::"memory");
}

template <int kCount>
__device__ __forceinline__ void wgmma_pin(int32_t (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i++) asm volatile("" : "+r"(d[i])::"memory");
}

/// Matrix descriptor for the 128-byte swizzle. Made once per tile; steps and slabs are reached by adding constants to
/// its low word (the address field does not overflow: shared memory is smaller than its 256 KiB), because making each
/// descriptor anew costs more instructions than the product it is for.
struct Descriptor {
  uint32_t low, high;
  __device__ __forceinline__ Descriptor(uint32_t addr, uint32_t leading, uint32_t stride)
      : low((addr & 0x3FFFF) >> 4 | (leading >> 4) << 16), high(stride >> 4 | 1u << 30) {}
  /// Of what lies `bytes` (a multiple of 16) further on.
  __device__ __forceinline__ Descriptor moved(uint32_t bytes) const {
    Descriptor d = *this;
    d.low += bytes >> 4;
    return d;
  }
  /// `bytes` further on; a compile-time constant.
  __device__ __forceinline__ uint64_t at(uint32_t bytes) const {
    uint64_t d;
    asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(low + (bytes >> 4)), "r"(high));
    return d;
  }
};
/// What lies `bytes` (a compile-time constant) on from where the descriptor `first` begins: one addition of 64 bits in uniform registers, where ptxas makes
/// an addition and two moves of `at`. Not every loop feels it (NOTES.md).
__device__ __forceinline__ uint64_t further(uint64_t first, uint32_t bytes) { return first + (bytes >> 4); }
constexpr uint32_t kStepKMajor = 32, kStepMnMajor = 2048;  // bytes from one step of K to the next

__device__ __forceinline__ Descriptor descriptor_k_major(uint32_t addr) { return {addr, 16, 1024}; }
/// `lines`: k lines in a slab.
__device__ __forceinline__ Descriptor descriptor_mn_major(uint32_t addr, int lines) {
  return {addr, uint32_t(lines) * 128, 1024};
}

}  // namespace ptx

#define ORK_L4 "%0, %1, %2, %3"
#define ORK_L8 ORK_L4 ", %4, %5, %6, %7"
#define ORK_L16 ORK_L8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define ORK_L32 ORK_L16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ORK_L40 ORK_L32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define ORK_L48 ORK_L32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define ORK_L56 ORK_L48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define ORK_L64 ORK_L48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ORK_L72 ORK_L64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define ORK_L80 ORK_L64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define ORK_L88 ORK_L80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define ORK_L96 ORK_L80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define ORK_L100 ORK_L96 ", %96, %97, %98, %99"
#define ORK_L112 ORK_L96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define ORK_L128 \
  ORK_L112 ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define ORK_R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ORK_R8(i) ORK_R4(i), ORK_R4(i + 4)
#define ORK_R16(i) ORK_R8(i), ORK_R8(i + 8)
#define ORK_R32(i) ORK_R16(i), ORK_R16(i + 16)
#define ORK_R64(i) ORK_R32(i), ORK_R32(i + 32)
#define ORK_REGS4 ORK_R4(0)
#define ORK_REGS8 ORK_R8(0)
#define ORK_REGS16 ORK_R16(0)
#define ORK_REGS32 ORK_R32(0)
#define ORK_REGS40 ORK_R32(0), ORK_R8(32)
#define ORK_REGS48 ORK_R32(0), ORK_R16(32)
#define ORK_REGS56 ORK_R32(0), ORK_R16(32), ORK_R8(48)
#define ORK_REGS64 ORK_R64(0)
#define ORK_REGS72 ORK_R64(0), ORK_R8(64)
#define ORK_REGS80 ORK_R64(0), ORK_R16(64)
#define ORK_REGS88 ORK_R64(0), ORK_R16(64), ORK_R8(80)
#define ORK_REGS96 ORK_R64(0), ORK_R32(64)
#define ORK_REGS100 ORK_R64(0), ORK_R32(64), ORK_R4(96)
#define ORK_REGS112 ORK_R64(0), ORK_R32(64), ORK_R16(96)
#define ORK_REGS128 ORK_R64(0), ORK_R64(64)

// A and B from shared memory. `tail` holds the immediates after the scale-d predicate.
#define ORK_WGMMA_SS(shape, list, regs, pa, pb, pk, tail, ...)                                            \
  asm volatile("{ .reg .pred p;\n\tsetp.ne.b32 p, %" pk ", 0;\n\twgmma.mma_async.sync.aligned." shape     \
               " {" list "}, %" pa ", %" pb ", p, 1, 1" tail "; }"                                        \
               : regs                                                                                     \
               : "l"(da), "l"(db), "r"(keep) __VA_ARGS__)
// A from registers.
#define ORK_WGMMA_RS(shape, list, regs, a0, a1, a2, a3, pb, pk, tail, ...)                                \
  asm volatile("{ .reg .pred p;\n\tsetp.ne.b32 p, %" pk ", 0;\n\twgmma.mma_async.sync.aligned." shape     \
               " {" list "}, {%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" pb ", p, 1, 1" tail "; }"            \
               : regs                                                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(db), "r"(keep) __VA_ARGS__)

#define ORK_COMMA ,
#define ORK_CASE16(n, r, p0, p1, p2, p3, p4)                                                               \
  if constexpr (kN == n) {                                                                                \
    if constexpr (std::is_same_v<TA, __nv_bfloat16>)                                                      \
      ORK_WGMMA_SS("m64n" #n "k16.f32.bf16.bf16", ORK_L##r, ORK_REGS##r, p0, p1, p2, ", %" p3 ", %" p4,      \
                   ORK_COMMA "n"(kTransA) ORK_COMMA "n"(kTransB));                                        \
    if constexpr (std::is_same_v<TA, __half>)                                                             \
      ORK_WGMMA_SS("m64n" #n "k16.f32.f16.f16", ORK_L##r, ORK_REGS##r, p0, p1, p2, ", %" p3 ", %" p4,        \
                   ORK_COMMA "n"(kTransA) ORK_COMMA "n"(kTransB));                                        \
    if constexpr (std::is_same_v<TA, Tf32>)                                                               \
      ORK_WGMMA_SS("m64n" #n "k8.f32.tf32.tf32", ORK_L##r, ORK_REGS##r, p0, p1, p2, "", );                   \
    if constexpr (std::is_same_v<TA, __nv_fp8_e4m3> && std::is_same_v<TB, __nv_fp8_e4m3>)                 \
      ORK_WGMMA_SS("m64n" #n "k32.f32.e4m3.e4m3", ORK_L##r, ORK_REGS##r, p0, p1, p2, "", );                  \
    if constexpr (std::is_same_v<TA, __nv_fp8_e4m3> && std::is_same_v<TB, __nv_fp8_e5m2>)                 \
      ORK_WGMMA_SS("m64n" #n "k32.f32.e4m3.e5m2", ORK_L##r, ORK_REGS##r, p0, p1, p2, "", );                  \
    if constexpr (std::is_same_v<TA, __nv_fp8_e5m2> && std::is_same_v<TB, __nv_fp8_e4m3>)                 \
      ORK_WGMMA_SS("m64n" #n "k32.f32.e5m2.e4m3", ORK_L##r, ORK_REGS##r, p0, p1, p2, "", );                  \
    if constexpr (std::is_same_v<TA, __nv_fp8_e5m2> && std::is_same_v<TB, __nv_fp8_e5m2>)                 \
      ORK_WGMMA_SS("m64n" #n "k32.f32.e5m2.e5m2", ORK_L##r, ORK_REGS##r, p0, p1, p2, "", );                  \
  }

/// One step, both operands by descriptor. `keep` = 0 starts the sum at zero.
template <class TA, class TB, int kN, int kTransA, int kTransB>
__device__ __forceinline__ void wgmma_ss(float (&d)[kN / 2], uint64_t da, uint64_t db, int keep) {
  ORK_CASE16(8, 4, "4", "5", "6", "7", "8")
  ORK_CASE16(16, 8, "8", "9", "10", "11", "12")
  ORK_CASE16(32, 16, "16", "17", "18", "19", "20")
  ORK_CASE16(64, 32, "32", "33", "34", "35", "36")
  ORK_CASE16(80, 40, "40", "41", "42", "43", "44")
  ORK_CASE16(96, 48, "48", "49", "50", "51", "52")
  ORK_CASE16(112, 56, "56", "57", "58", "59", "60")
  ORK_CASE16(128, 64, "64", "65", "66", "67", "68")
  ORK_CASE16(144, 72, "72", "73", "74", "75", "76")
  ORK_CASE16(160, 80, "80", "81", "82", "83", "84")
  ORK_CASE16(176, 88, "88", "89", "90", "91", "92")
  ORK_CASE16(192, 96, "96", "97", "98", "99", "100")
  ORK_CASE16(200, 100, "100", "101", "102", "103", "104")
  ORK_CASE16(224, 112, "112", "113", "114", "115", "116")
  ORK_CASE16(256, 128, "128", "129", "130", "131", "132")
}

// The same with integer accumulators.
#define ORK_I4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define ORK_I8(i) ORK_I4(i), ORK_I4(i + 4)
#define ORK_I16(i) ORK_I8(i), ORK_I8(i + 8)
#define ORK_I32(i) ORK_I16(i), ORK_I16(i + 16)
#define ORK_I64(i) ORK_I32(i), ORK_I32(i + 32)
#define ORK_INTS4 ORK_I4(0)
#define ORK_INTS8 ORK_I8(0)
#define ORK_INTS16 ORK_I16(0)
#define ORK_INTS32 ORK_I32(0)
#define ORK_INTS64 ORK_I64(0)
#define ORK_INTS96 ORK_I64(0), ORK_I32(64)
#define ORK_INTS128 ORK_I64(0), ORK_I64(64)
#define ORK_CASE_INT(n, r, p0, p1, p2)                                                                    \
  if constexpr (kN == n)                                                                                  \
    asm volatile("{ .reg .pred p;\n\tsetp.ne.b32 p, %" p2 ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #n   \
                 "k32.s32.s8.s8 {" ORK_L##r "}, %" p0 ", %" p1 ", p; }"                                    \
                 : ORK_INTS##r                                                                            \
                 : "l"(da), "l"(db), "r"(keep));

template <class TA, class TB, int kN, int kTransA, int kTransB>
__device__ __forceinline__ void wgmma_ss(int32_t (&d)[kN / 2], uint64_t da, uint64_t db, int keep) {
  static_assert(sizeof(TA) == 1 && sizeof(TB) == 1 && !kTransA && !kTransB);
  static_assert(kN == 8 || kN == 16 || kN == 32 || kN == 64 || kN == 128 || kN == 192 || kN == 256, "any other would be no product at all");
  ORK_CASE_INT(8, 4, "4", "5", "6")
  ORK_CASE_INT(16, 8, "8", "9", "10")
  ORK_CASE_INT(32, 16, "16", "17", "18")
  ORK_CASE_INT(64, 32, "32", "33", "34")
  ORK_CASE_INT(128, 64, "64", "65", "66")
  ORK_CASE_INT(192, 96, "96", "97", "98")
  ORK_CASE_INT(256, 128, "128", "129", "130")
}
#undef ORK_CASE_INT

#define ORK_CASE_RS(n, r, p0, p1, p2, p3, p4, p5, p6)                                                     \
  if constexpr (kN == n) {                                                                                \
    if constexpr (std::is_same_v<T, __nv_bfloat16>)                                                       \
      ORK_WGMMA_RS("m64n" #n "k16.f32.bf16.bf16", ORK_L##r, ORK_REGS##r, p0, p1, p2, p3, p4, p5, ", %" p6, \
                   ORK_COMMA "n"(kTransB));                                                               \
    if constexpr (std::is_same_v<T, __half>)                                                              \
      ORK_WGMMA_RS("m64n" #n "k16.f32.f16.f16", ORK_L##r, ORK_REGS##r, p0, p1, p2, p3, p4, p5, ", %" p6,   \
                   ORK_COMMA "n"(kTransB));                                                               \
    if constexpr (std::is_same_v<T, __nv_fp8_e4m3>)                                                       \
      ORK_WGMMA_RS("m64n" #n "k32.f32.e4m3.e4m3", ORK_L##r, ORK_REGS##r, p0, p1, p2, p3, p4, p5, "", );   \
  }

/// One step with the A fragment in registers: a[0] rows r, a[1] rows r + 8, a[2], a[3] the upper half of K.
template <class T, int kN, int kTransB>
__device__ __forceinline__ void wgmma_rs(float (&d)[kN / 2], const uint32_t (&a)[4], uint64_t db, int keep) {
  ORK_CASE_RS(8, 4, "4", "5", "6", "7", "8", "9", "10")
  ORK_CASE_RS(16, 8, "8", "9", "10", "11", "12", "13", "14")
  ORK_CASE_RS(32, 16, "16", "17", "18", "19", "20", "21", "22")
  ORK_CASE_RS(64, 32, "32", "33", "34", "35", "36", "37", "38")
  ORK_CASE_RS(96, 48, "48", "49", "50", "51", "52", "53", "54")
  ORK_CASE_RS(112, 56, "56", "57", "58", "59", "60", "61", "62")
  ORK_CASE_RS(128, 64, "64", "65", "66", "67", "68", "69", "70")
  ORK_CASE_RS(160, 80, "80", "81", "82", "83", "84", "85", "86")
  ORK_CASE_RS(192, 96, "96", "97", "98", "99", "100", "101", "102")
  ORK_CASE_RS(256, 128, "128", "129", "130", "131", "132", "133", "134")
}

#undef ORK_CASE16
#undef ORK_CASE_RS
#undef ORK_WGMMA_SS
#undef ORK_WGMMA_RS
#undef ORK_COMMA

}  // namespace orrery::kernels
