// calib/steps/steps.h: microbenchmarks that are whole kernels, so that a profiler times them as it times any kernel and the
// simulated GPU can run the same. The timing model's figures come from these and from calib/dissect; calib/truth, which judges
// it, lends only its way to declare a case.
//
// Here: what several files issue in the same way, rings of bulk copies and wgmma.
#pragma once
#include "../truth/truth.h"

namespace steps {
using namespace truth;

__device__ inline uint32_t smem(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ inline uint32_t mix(uint32_t h) {
  h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
  return h;
}

/// Instructions in a row that do not depend on each other.
template <int kN>
__device__ inline float straight(float y) {
  float x[8];
#pragma unroll
  for (int k = 0; k < 8; k++) x[k] = threadIdx.x + k;
#pragma unroll
  for (int i = 0; i < kN; i++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[i % 8]) : "f"(y));
  float s = 0;
#pragma unroll
  for (int k = 0; k < 8; k++) s += x[k];
  return s;
}

/// `rounds` of a body's pull by those of a tile: a root and loads that all lanes share.
template <int kTile>
__device__ inline void attract(const float4* tile, float (&s)[8], int rounds) {
#pragma unroll 8
  for (int w = 0; w < rounds; w++) {
    const float4 o = tile[w % kTile];
    const float x = o.x - s[0], y = o.y - s[1], z = o.z - s[2], r = rsqrtf(x * x + y * y + z * z + 1e-3f), k = o.w * r * r * r;
    s[3] += x * k, s[4] += y * k, s[5] += z * k;
  }
}

/// The barriers of a ring of `stages`, each of one arrival.
__device__ inline void init_ring(uint64_t* bar, int stages) {
  for (int s = 0; s < stages; s++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&bar[s])));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void expect(uint64_t* bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(bytes) : "memory");
}
/// Copies `bytes` into a stage of a ring and makes its barrier expect them.
__device__ inline void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* bar) {
  expect(bar, bytes);
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(to)), "l"(from), "r"(bytes), "r"(smem(bar)) : "memory");
}
__device__ inline void wait(uint64_t* bar, uint32_t parity) {
  asm volatile("{ .reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD: }" ::"r"(smem(bar)), "r"(parity) : "memory");
}

/// A ring of bulk copies of 16 KB, four in flight: block b copies pieces b, b + step and so on of `pieces`.
__device__ inline void copy_ring(const char* from, char* room, uint64_t* bar, uint32_t first, uint32_t step, uint32_t pieces, int copies) {
  constexpr uint32_t kBytes = 16384;
  init_ring(bar, 4);
  const auto fetch = [&](int i) { bulk_load(room + i % 4 * kBytes, from + size_t((first + uint32_t(i) * step) % pieces) * kBytes, kBytes, &bar[i % 4]); };
  for (int i = 0; i < 4 && i < copies; i++) fetch(i);
  for (int i = 0; i < copies; i++) {
    wait(&bar[i % 4], uint32_t(i / 4 & 1));
    if (i + 4 < copies) fetch(i + 4);
  }
}

/// Descriptor of a matrix in rows of 128 bytes, swizzled, in shared memory.
__device__ inline uint64_t matrix_from(uint32_t address) { return uint64_t(64) << 32 | uint64_t(1) << 62 | (address & 0x3ffff) >> 4; }
__device__ inline uint64_t matrix_at(const void* p) { return matrix_from(smem(p)); }
/// Two halves of random sign and size, none of them large.
__device__ inline uint32_t random_halves(uint32_t seed) { return (mix(seed) & 0x83ff83ffu) | 0x34003400u; }

/// Issues products of 64 x 2 kSums x 16, operands in shared memory: 64 x 128 or 64 x 256.
template <int kProducts, int kSums>
__device__ inline void issue_products(float (&d)[kSums], uint64_t a, uint64_t b) {
#define TEN(tens) "%" tens "0,%" tens "1,%" tens "2,%" tens "3,%" tens "4,%" tens "5,%" tens "6,%" tens "7,%" tens "8,%" tens "9,"
#define SIXTY TEN("") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5")
#define R8(n) "+f"(d[n]), "+f"(d[n + 1]), "+f"(d[n + 2]), "+f"(d[n + 3]), "+f"(d[n + 4]), "+f"(d[n + 5]), "+f"(d[n + 6]), "+f"(d[n + 7])
#define R64(n) R8(n), R8(n + 8), R8(n + 16), R8(n + 24), R8(n + 32), R8(n + 40), R8(n + 48), R8(n + 56)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < kProducts; k++) {
    const uint64_t at_a = a + (k & 3) * 2, at_b = b + (k & 3) * 2;
    if constexpr (kSums == 64) {
      asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" SIXTY "%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 0;" : R64(0) : "l"(at_a), "l"(at_b));
    } else {
      static_assert(kSums == 128);
      asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" SIXTY TEN("6") TEN("7") TEN("8") TEN("9") TEN("10") TEN("11")
                   "%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, 1, 1, 1, 0, 0;" : R64(0), R64(64) : "l"(at_a), "l"(at_b));
    }
  }
#undef R64
#undef R8
#undef SIXTY
#undef TEN
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Eight of them, and the wait for them.
template <int kSums>
__device__ inline void multiply(float (&d)[kSums], uint64_t a, uint64_t b) {
  issue_products<8>(d, a, b);
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

}  // namespace steps
