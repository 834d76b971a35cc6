// calib/steps/kept.cu: what L1 keeps of rows that a warp goes over again and again, with stores between and without; what it has of what the SM has
// stored.
//
// A warp's row has `bytes` bytes; an SM holds 64 warps but where the case's name says otherwise. Not here: rows that lanes walk (lane_walks.cu).
#include "steps.h"

namespace kept {
using namespace steps;

// What the compiler may not leave out, but L1 may keep.
__device__ inline float load(const float* at) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(at) : "memory");
  return v;
}
__device__ inline void store(float* at, float v) { asm volatile("st.global.f32 [%0], %1;" ::"l"(at), "f"(v) : "memory"); }

enum class Store { none, last, in_place, each };  // of the last turn, elsewhere or where it was read; of each turn but the first

/// Goes over the row `passes` times; what is added depends on the turn before.
template <Store kStore>
__global__ void go_over(float* out, float* in, int words, int passes, float zero) {
  const long warp = (long(blockIdx.x) * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float* const row = in + warp * words;
  float* const to = kStore == Store::in_place ? row : out + warp * words;
  float sum = 0;
  for (int pass = 0; pass < passes; pass++) {
    const float less = sum * zero;
#pragma unroll 4
    for (int i = int(lane); i < words; i += 32) {
      const float v = load(row + i) - less;
      sum += v;
      if (kStore == Store::each ? pass > 0 : kStore != Store::none && pass + 1 == passes) store(to + i, v);
    }
    for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
  }
  if (kStore == Store::none && lane == 0) out[warp] = sum;
}
template <Store kStore>
Launch over(long bytes, int blocks, int threads, int passes) {
  const size_t words = size_t(blocks) * size_t(threads) / 32 * size_t(bytes) / 4;
  auto in = zeros<float>(words), out = zeros<float>(words);
  return [=] { go_over<kStore><<<unsigned(blocks), unsigned(threads)>>>(out, in.p, int(bytes / 4), passes, 0.f); };
}
#define ROWS (std::vector<long>{1024, 1536, 2048, 2560, 2816, 3072, 3136, 3328, 3584, 4096, 5120})
#define OVER(name, store, blocks, threads, passes) TRUTH("kept", name, ROWS, [](long n) { return over<Store::store>(n, blocks, threads, passes); });
OVER("kept_read", none, 132 * 8, 256, 3)
OVER("kept_read_waves", none, 132 * 24, 256, 3)
OVER("kept_last", last, 132 * 8, 256, 3)
OVER("kept_last_waves", last, 132 * 24, 256, 3)
OVER("kept_in_place", in_place, 132 * 8, 256, 3)
OVER("kept_each", each, 132 * 8, 256, 3)
#define LONG (std::vector<long>{16384, 20480, 24576, 28672, 32768})
TRUTH("kept", "kept_few", LONG, [](long n) { return over<Store::none>(n, 132, 256, 3); });
TRUTH("kept", "kept_few_last", LONG, [](long n) { return over<Store::last>(n, 132, 256, 3); });

/// Stores a row, whole words of all lanes or one of each sector, and reads it.
template <int kStep>
__global__ void store_first(float* out, float* row, int words) {
  const long warp = (long(blockIdx.x) * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float* const at = row + warp * words;
  for (int i = int(lane) * kStep; i < words; i += 32 * kStep) store(at + i, float(i));
  float sum = 0;
  for (int i = int(lane) * kStep; i < words; i += 32 * kStep) sum += load(at + i);
  for (int i = int(lane) * kStep; i < words; i += 32 * kStep) sum += load(at + i);
  out[warp * 32 + lane] = sum;
}
template <int kStep>
Launch stored(long bytes) {
  const size_t words = 132 * 64 * size_t(bytes) / 4;
  auto row = zeros<float>(words), out = zeros<float>(132 * 64 * 32);
  return [=] { store_first<kStep><<<132 * 8, 256>>>(out, row.p, int(bytes / 4)); };
}
TRUTH("kept", "stored_whole", {1024, 2048}, [](long n) { return stored<1>(n); });
TRUTH("kept", "stored_words", {1024, 2048}, [](long n) { return stored<8>(n); });

/// Each block's work grows with its number: triangles of `blocks` blocks, of loads one after the other.
__global__ void ramp(float* out, const float* in, int each, float zero) {
  float v = 0;
  for (int i = 0; i < each * int(blockIdx.x + 1); i++) v += in[(long(blockIdx.x) * 4096 + i) * 64 + threadIdx.x + long(v * zero)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
TRUTH("kept", "ramp", {9, 12, 20, 33, 64, 100, 132}, [](long n) {
  auto in = zeros<float>(132 * 4096 * 64), out = zeros<float>(132 * 64);
  const int each = int(2048 / n);
  return [=] { ramp<<<unsigned(n), 32>>>(out, in, each, 0.f); };
});
/// Rotated: the block in the middle does most.
__global__ void hill(float* out, const float* in, int each, float zero) {
  float v = 0;
  const int steps = each * (int(gridDim.x) - abs(2 * int(blockIdx.x) - int(gridDim.x)));
  for (int i = 0; i < steps; i++) v += in[(long(blockIdx.x) * 4096 + i) * 64 + threadIdx.x + long(v * zero)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
TRUTH("kept", "hill", {12, 33, 64, 132}, [](long n) {
  auto in = zeros<float>(132 * 4096 * 64), out = zeros<float>(132 * 64);
  const int each = int(2048 / n);
  return [=] { hill<<<unsigned(n), 32>>>(out, in, each, 0.f); };
});

}  // namespace kept
