// calib/held-out/products.h: one wgmma of 64 x 128 x 16 halves on tiles of 64 columns that are swizzled by 128 bytes.
// Not here: how tiles get to shared memory (pipelines.cu, layers.cu).
#pragma once
#include <cstdint>

namespace {

__device__ uint64_t descriptor(uint32_t at) { return uint64_t(at >> 4 & 0x3FFF) | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ void product(float (&d)[64], uint64_t a, uint64_t b) {
#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 0;"
      : R16(0), R16(16), R16(32), R16(48)
      : "l"(a), "l"(b));
}

}  // namespace
