// calib/steps/loads.cu: what loads do to each other in L1 (one word for a warp beside lines, shifted lines, addresses that are computed
// for each); tiles of a matrix by its pitch; compare-and-swap with what comes between; rows of a sparse matrix.
#include "../truth/truth.h"

namespace {
using namespace truth;

/// `words` loads of one word for all lanes and `lines` of a line in each turn, all from L1; shifted: from the middle of a line.
template <int kWords, int kLines, int kShift>
__global__ void l1_turns(const float* a, const float* b, float* out, int rounds) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 32;
  float acc = 0;
  for (int r = 0; r < rounds; r++) {
    const float* word = a + warp * 128;
    const float* line = b + lane + kShift;
#pragma unroll 1
    for (int k = 0; k < 32; k++, word += 4, line += 128) {
      float v[kWords + kLines];
#pragma unroll
      for (int i = 0; i < kWords; i++) v[i] = word[i];
#pragma unroll
      for (int i = 0; i < kLines; i++) v[kWords + i] = line[i * 32];
#pragma unroll
      for (int i = 0; i < kWords + kLines; i++) acc += v[i];
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
#define L1_TURNS(words, lines, shift) \
  TRUTH("l1", "l1_turns" #words #lines "_" #shift, {16, 64}, [](long warps) { \
    auto a = uniform<float>(1 << 16), b = uniform<float>(1 << 16), o = zeros<float>(264 * 1024); \
    return [=] { l1_turns<words, lines, shift><<<132 * (warps > 32 ? 2 : 1), int(warps > 32 ? 32 : warps) * 32>>>(a, b, o, 60); }; \
  });
L1_TURNS(4, 0, 0) L1_TURNS(0, 4, 0) L1_TURNS(4, 4, 0) L1_TURNS(1, 3, 0) L1_TURNS(0, 4, 1) L1_TURNS(2, 2, 1)

/// The same place with products instead of sums, words and lines by turns, as a matrix product written plainly has them.
template <int kUnroll>
__global__ void l1_products(const float* a, const float* b, float* out, int rounds) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 32;
  float acc = 0;
  for (int r = 0; r < rounds; r++)
#pragma unroll kUnroll
    for (int k = 0; k < 128; k++) acc += a[warp * 128 + k] * b[k * 32 + lane];
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
#define L1_PRODUCTS(n) \
  TRUTH("l1", "l1_products" #n, {16, 64}, [](long warps) { \
    auto a = uniform<float>(1 << 16), b = uniform<float>(1 << 16), o = zeros<float>(264 * 1024); \
    return [=] { l1_products<n><<<132 * (warps > 32 ? 2 : 1), int(warps > 32 ? 32 : warps) * 32>>>(a, b, o, 20); }; \
  });
L1_PRODUCTS(1) L1_PRODUCTS(2) L1_PRODUCTS(16)

/// A column of lines with its neighbours, plane after plane, from L1 and L2: what a stencil reads, without its stores.
template <bool kSides>
__global__ void planes(const float* in, float* out, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x + 1, y = blockIdx.y * 8 + threadIdx.y + 1;
  const long plane = long(n) * n;
  long i = long(y) * n + x;
  float acc = 0;
  for (int z = 0; z < 64; z++, i += plane) {
    acc += in[i];
    if (kSides) acc += in[i - 1] + in[i + 1] + in[i - n] + in[i + n];
  }
  out[long(blockIdx.y * 8 + threadIdx.y) * n + blockIdx.x * 32 + threadIdx.x] = acc;
}
TRUTH("plane", "planes_one", {130, 258}, [](long n) {
  auto a = uniform<float>(64 * n * n), o = zeros<float>(n * n);
  return [=] { planes<false><<<dim3(n / 32, n / 8), dim3(32, 8)>>>(a, o, int(n)); };
});
TRUTH("plane", "planes_five", {130, 258}, [](long n) {
  auto a = uniform<float>(64 * n * n), o = zeros<float>(n * n);
  return [=] { planes<true><<<dim3(n / 32, n / 8), dim3(32, 8)>>>(a, o, int(n)); };
});

/// Tiles of 64 rows of 128 bytes, read from a matrix and written to the same place of another, or to the place across its diagonal.
template <bool kAcross>
__global__ void __launch_bounds__(256) tiles(const uint4* in, uint4* out, int pitch, int per_row) {
  const int bx = blockIdx.x % per_row, by = blockIdx.x / per_row, tx = threadIdx.x % 8, ty = threadIdx.x / 8;
  const uint4* from = in + long(by * 64 + ty) * pitch + bx * 8 + tx;
  const uint4 a = from[0], b = from[32l * pitch];
  uint4* to = out + long((kAcross ? bx : by) * 64 + ty) * pitch + (kAcross ? by : bx) * 8 + tx;
  to[0] = a, to[32l * pitch] = b;
}
TRUTH("dram", "tiles_same", {1024, 2048, 4096, 8192}, [](long n) {
  Array<uint4> a(n * n / 8), b(n * n / 8);
  return [=] { tiles<false><<<int(n / 64 * (n / 64)), 256>>>(a, b, int(n / 8), int(n / 64)); };
});
TRUTH("dram", "tiles_across", {1024, 2048, 4096, 8192}, [](long n) {
  Array<uint4> a(n * n / 8), b(n * n / 8);
  return [=] { tiles<true><<<int(n / 64 * (n / 64)), 256>>>(a, b, int(n / 8), int(n / 64)); };
});

/// One compare-and-swap a thread at a place drawn at random; then another beside it for every second thread.
template <bool kAgain>
__global__ void swap_once(uint32_t* table, uint32_t mask, const uint32_t* keys, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const uint32_t key = keys[i];
  uint32_t slot = (key * 2654435761u) & mask;
  for (uint32_t left = kAgain ? key & 1 : 0;; left--) {
    atomicCAS(&table[slot], 0u, 1u);
    if (left == 0) return;
    slot = (slot + 1) & mask;
  }
}
#define SWAP_ONCE(name, again) \
  TRUTH("atomic", name, {1 << 16, 1 << 20, 1 << 22}, [](long n) { \
    auto t = zeros<uint32_t>(n * 2), k = indices(n, ~0u); \
    return [=] { swap_once<again><<<int(n / 256), 256>>>(t, uint32_t(n * 2 - 1), k, int(n)); }; \
  });
SWAP_ONCE("swap_once", false) SWAP_ONCE("swap_again", true)

/// Two million operations at random places of a table of so many megabytes: compared and swapped, added with and without an answer.
template <int kWhat>
__global__ void on_table(uint32_t* table, uint32_t mask, uint32_t* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t h = uint32_t(i) * 0x85ebca6bu;
  h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
  uint32_t* const at = &table[h & mask];
  if (kWhat == 0) atomicAdd(at, 1);
  else if (const uint32_t old = kWhat == 1 ? atomicAdd(at, 1) : atomicCAS(at, 0u, h | 1); old == 0x12345678) out[i % 32] = old;
}
#define ON_TABLE(name, what) \
  TRUTH("atomic", name, {1, 8, 16, 32, 128}, [](long mb) { \
    auto t = zeros<uint32_t>(mb << 18), o = zeros<uint32_t>(32); \
    return [=] { on_table<what><<<8192, 256>>>(t, uint32_t((mb << 18) - 1), o, 1 << 21); }; \
  });
ON_TABLE("table_add", 0) ON_TABLE("table_take", 1) ON_TABLE("table_swap", 2)

/// Floats added in shared memory at so many words, by all lanes.
__global__ void shared_add_float(float* out, uint32_t mask, int rounds) {
  __shared__ float s[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = 0;
  __syncthreads();
  uint32_t h = blockIdx.x * blockDim.x + threadIdx.x;
  for (int r = 0; r < rounds; r++) {
    h = h * 1664525u + 1013904223u;
    atomicAdd(&s[h >> 16 & mask], 1.f);
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = s[threadIdx.x % 1024];
}
TRUTH("atomic", "shared_add_float", {1, 8, 32, 64, 256, 1024}, [](long words) {
  auto o = zeros<float>(264 * 256);
  return [=] { shared_add_float<<<264, 256>>>(o, uint32_t(words - 1), 200); };
});
/// The same of whole numbers.
__global__ void shared_add_bins(uint32_t* out, uint32_t mask, int rounds) {
  __shared__ uint32_t s[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = 0;
  __syncthreads();
  uint32_t h = blockIdx.x * blockDim.x + threadIdx.x;
  for (int r = 0; r < rounds; r++) {
    h = h * 1664525u + 1013904223u;
    atomicAdd(&s[h >> 16 & mask], 1u + (h & 1));
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = s[threadIdx.x % 1024];
}
TRUTH("atomic", "shared_add_bins", {8, 32, 64, 256, 1024}, [](long words) {
  auto o = zeros<uint32_t>(264 * 256);
  return [=] { shared_add_bins<<<264, 256>>>(o, uint32_t(words - 1), 200); };
});

/// Structures of kQuads times 16 bytes, one a thread: read, written, or both.
template <int kQuads, int kWhat>
__global__ void wide_structures(const float4* in, float4* out, long n) {
  const long i = blockIdx.x * 256l + threadIdx.x;
  if (i >= n) return;
  float4 v[kQuads] = {};
  if (kWhat != 1)
#pragma unroll
    for (int q = 0; q < kQuads; q++) v[q] = in[i * kQuads + q];
  if (kWhat == 0) {
    float sum = 0;
    for (int q = 0; q < kQuads; q++) sum += v[q].x + v[q].y + v[q].z + v[q].w;
    if (sum == 12345.f) out[i] = v[0];
    return;
  }
#pragma unroll
  for (int q = 0; q < kQuads; q++) out[i * kQuads + q] = v[q];
}
#define WIDE(quads, what, name) \
  TRUTH("partial", name #quads, {1 << 16, 1 << 21}, [](long n) { \
    auto a = zeros<float4>(n * quads), b = zeros<float4>(n * quads); \
    return [=] { wide_structures<quads, what><<<blocks_for(n, 256), 256>>>(a, b, n); }; \
  });
WIDE(2, 0, "wide_read") WIDE(3, 0, "wide_read") WIDE(4, 0, "wide_read") WIDE(2, 1, "wide_write") WIDE(4, 1, "wide_write") WIDE(2, 2, "wide_copy") WIDE(4, 2, "wide_copy")

}  // namespace
