// calib/steps/small.cu: launches of a few microseconds that touch memory once: what the first loads and stores of a grid cost by how
// many blocks there are, how many arrays and pages they touch, and which way they go; copies in bulk and of boxes; and what launching alone costs.
#include "../dissect/tensor_map.h"
#include "steps.h"

namespace {
using namespace steps;

constexpr int kBlock = 256;
__global__ void loads1(const float* a, float* out) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  if (a[i] == 7) out[0] = 1;
}
__global__ void loads2(const float* a, const float* b, float* out) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  if (a[i] + b[i] == 7) out[0] = 1;
}
__global__ void loads4(const float* a, const float* b, const float* c, const float* d, float* out) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  if (a[i] + b[i] + c[i] + d[i] == 7) out[0] = 1;
}
__global__ void wide_loads(const float4* a, float* out) {
  const float4 v = a[blockIdx.x * kBlock + threadIdx.x];
  if (v.x + v.y + v.z + v.w == 7) out[0] = 1;
}
__global__ void stores(float* b) { b[blockIdx.x * kBlock + threadIdx.x] = 1; }
__global__ void copies(const float* a, float* b) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  b[i] = a[i];
}
__global__ void sums(const float* a, float* b) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  b[i] += a[i];
}
__global__ void adds(float* b) { atomicAdd(&b[blockIdx.x * kBlock + threadIdx.x], 1.f); }
/// Each word is the index of the next: `steps` loads one after the other.
__global__ void chase(const uint32_t* a, uint32_t* out, int steps) {
  uint32_t at = 0;
#pragma unroll 1
  for (int i = 0; i < steps; i++) at = a[at + blockIdx.x * 32 + threadIdx.x];
  if (at == 7) out[0] = at;
}
/// A warp whose lanes read a word each, `apart` words from each other.
__global__ void lanes_apart(const uint32_t* a, uint32_t* out, long apart) {
  if (a[(blockIdx.x * 32 + threadIdx.x) * apart] == 7) out[0] = 1;
}

enum Kind { kLoads1, kLoads2, kLoads4, kWideLoads, kStores, kCopies, kSums, kAdds };
truth::Launch many(Kind kind, long n) {
  const size_t words = size_t(n) * kBlock;
  auto a = uniform<float>(words * 4), b = uniform<float>(words), c = uniform<float>(words), d = uniform<float>(words), out = zeros<float>(words);
  return [=] {
    const unsigned g = unsigned(n);
    switch (kind) {
      case kLoads1: loads1<<<g, kBlock>>>(a, out); break;
      case kLoads2: loads2<<<g, kBlock>>>(a, b, out); break;
      case kLoads4: loads4<<<g, kBlock>>>(a, b, c, d, out); break;
      case kWideLoads: wide_loads<<<g, kBlock>>>((const float4*)a.p, out); break;
      case kStores: stores<<<g, kBlock>>>(out); break;
      case kCopies: copies<<<g, kBlock>>>(a, out); break;
      case kSums: sums<<<g, kBlock>>>(a, out); break;
      case kAdds: adds<<<g, kBlock>>>(out); break;
    }
  };
}
#define SMALL(name, kind) TRUTH("small", name, {1, 16, 132, 264, 528, 1056, 2112, 4224, 8448, 16896}, [](long n) { return many(kind, n); });
SMALL("small_loads1", kLoads1) SMALL("small_loads2", kLoads2) SMALL("small_loads4", kLoads4) SMALL("small_wide_loads", kWideLoads)
SMALL("small_stores", kStores) SMALL("small_copies", kCopies) SMALL("small_sums", kSums) SMALL("small_adds", kAdds)

truth::Launch chased(long steps, long apart, int blocks) {
  std::vector<uint32_t> next(size_t(steps * apart) + 32 * size_t(blocks));
  for (long i = 0; i < steps; i++)
    for (size_t k = 0; k < 32 * size_t(blocks); k++) next[size_t(i * apart) + k] = uint32_t((i + 1) % steps * apart);
  auto a = upload(next);
  auto out = zeros<uint32_t>(1);
  return [=] { chase<<<unsigned(blocks), 32>>>(a, out, int(steps)); };
}
TRUTH("small", "small_chase_4K", {1, 2, 4, 8, 16, 32}, [](long n) { return chased(n, 1024, 1); });
TRUTH("small", "small_chase_64K", {1, 2, 4, 8, 16, 32}, [](long n) { return chased(n, 16384, 1); });
TRUTH("small", "small_chase_2M", {1, 2, 4, 8, 16, 32}, [](long n) { return chased(n, 524288, 1); });
TRUTH("small", "small_chase_2M_132", {1, 2, 4, 8, 16}, [](long n) { return chased(n, 524288, 132); });

truth::Launch apart(long words, int blocks) {
  auto a = zeros<uint32_t>(size_t(words) * 32 * size_t(blocks) + 1), out = zeros<uint32_t>(1);
  return [=] { lanes_apart<<<unsigned(blocks), 32>>>(a, out, words); };
}
/// A copy in bulk of 8 KB, or of a box of 64 x 64 halves whose map is a parameter (kBox): by one thread, kTimes, each waited for.
template <bool kBox, int kTimes>
__global__ void copies_in(const __grid_constant__ CUtensorMap map, const char* from, float* out) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bar[1];
  if (threadIdx.x == 0) {
    init_ring(bar, 1);
#pragma unroll 1
    for (int i = 0; i < kTimes; i++) {
      const uint32_t at = blockIdx.x * kTimes + i;
      if constexpr (kBox) {
        expect(bar, 8192);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(smem(room)), "l"(&map), "r"(0), "r"(int(at) * 64), "r"(smem(bar)) : "memory");
      } else {
        bulk_load(room, from + size_t(at) * 8192, 8192, bar);
      }
      wait(bar, i & 1);
    }
    if (*reinterpret_cast<float*>(room) == 1.5f) out[0] = 1;
  }
}
template <bool kBox, int kTimes>
truth::Launch copied_in(long n) {
  auto from = zeros<char>(size_t(n) * kTimes * 8192);
  auto out = zeros<float>(1);
  cudaFuncSetAttribute(copies_in<kBox, kTimes>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  const CUtensorMap map = matrix_map(from.p, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, n * kTimes * 64, 64, 64, 64, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE);
  return [=] { copies_in<kBox, kTimes><<<unsigned(n), 128, 16384>>>(map, from.p, out); };
}
#define COPIED {1, 16, 132, 264, 1056}
TRUTH("small", "small_bulk_1", COPIED, (copied_in<false, 1>));
TRUTH("small", "small_bulk_4", COPIED, (copied_in<false, 4>));
TRUTH("small", "small_box_1", COPIED, (copied_in<true, 1>));
TRUTH("small", "small_box_4", COPIED, (copied_in<true, 4>));

/// Nothing; a look at a parameter; a chain of kN products and a store.
__global__ void nothing() {}
__global__ void looks(float* out, int p) {
  if (p == 12345) out[0] = 1;
}
template <int kN>
__global__ void chains(float* out, float y) {
  float x = y;
#pragma unroll
  for (int i = 0; i < kN; i++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
#define BLOCKS {1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2112}
TRUTH("small", "small_nothing_32", BLOCKS, [](long n) { return [=] { nothing<<<unsigned(n), 32>>>(); }; });
TRUTH("small", "small_nothing_256", BLOCKS, [](long n) { return [=] { nothing<<<unsigned(n), 256>>>(); }; });
TRUTH("small", "small_nothing_1024", BLOCKS, [](long n) { return [=] { nothing<<<unsigned(n), 1024>>>(); }; });
/// Nothing, in blocks with so many KB of shared memory: what it is taken from is L1.
template <int kKilobytes>
truth::Launch with_room(long n) {
  cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024);
  return [=] { nothing<<<unsigned(n), 256, kKilobytes * 1024>>>(); };
}
TRUTH("small", "small_room_16", {1, 132}, with_room<16>);
TRUTH("small", "small_room_100", {1, 132}, with_room<100>);
TRUTH("small", "small_room_227", {1, 132}, with_room<227>);
truth::Launch looked(long n, int threads) {
  auto out = zeros<float>(1);
  return [=] { looks<<<unsigned(n), unsigned(threads)>>>(out, 3); };
}
TRUTH("small", "small_looks_32", BLOCKS, [](long n) { return looked(n, 32); });
TRUTH("small", "small_looks_256", BLOCKS, [](long n) { return looked(n, 256); });
template <int kN>
truth::Launch chained(long n, int threads) {
  auto out = zeros<float>(size_t(n) * size_t(threads));
  return [=] { chains<kN><<<unsigned(n), unsigned(threads)>>>(out, .5f); };
}
#define CHAINS(length) TRUTH("small", "small_chain_" #length, BLOCKS, [](long n) { return chained<length>(n, 32); });
CHAINS(0) CHAINS(64)
#define CHAIN(length) TRUTH("small", "small_code_" #length, {1, 132}, [](long n) { return chained<length>(n, 32); });
CHAIN(8) CHAIN(16) CHAIN(24) CHAIN(32) CHAIN(40) CHAIN(48) CHAIN(56) CHAIN(80) CHAIN(96) CHAIN(128) CHAIN(192) CHAIN(256)
TRUTH("small", "small_chain_0_256", BLOCKS, [](long n) { return chained<0>(n, 256); });
TRUTH("small", "small_load_32", BLOCKS, [](long n) { return chased(1, 1024, int(n)); });

#define APART {1, 8, 32, 256, 1024, 16384, 65536, 524288}
TRUTH("small", "small_lanes_1", APART, [](long n) { return apart(n, 1); });
TRUTH("small", "small_lanes_4", APART, [](long n) { return apart(n, 4); });
TRUTH("small", "small_lanes_132", {1, 8, 32, 256, 1024, 16384, 65536}, [](long n) { return apart(n, 132); });
}  // namespace
