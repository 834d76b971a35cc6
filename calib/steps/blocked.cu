// calib/steps/blocked.cu: products of floats by blocks in registers: how a tile comes to shared memory (loaded and stored between two barriers, loaded
// a step ahead into registers, or copied past them a step ahead), by tiles, by words of a lane and by how many blocks there are.
#include <cstdint>

#include "steps.h"

namespace {
using namespace steps;

enum class How { between, ahead, copied };

template <int kWords>
__device__ void copy_async(float* to, const float* from) {
  const uint32_t at = uint32_t(__cvta_generic_to_shared(to));
  if constexpr (kWords == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}

/// A tile of kRows x kColumns of a matrix with rows of n floats, by kThreads threads, kWords floats of each at a time.
template <int kRows, int kColumns, int kThreads, int kWords>
struct Tile {
  static constexpr int kEach = kRows * kColumns / kThreads / kWords;
  float held[kEach * kWords];
  static __device__ int row(int i) { return (int(threadIdx.x) + i * kThreads) * kWords / kColumns; }
  static __device__ int column(int i) { return (int(threadIdx.x) + i * kThreads) * kWords % kColumns; }
  __device__ void load(const float* from, int n) {
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const float* at = from + size_t(row(i)) * n + column(i);
      if constexpr (kWords == 4) {
        const float4 v = *reinterpret_cast<const float4*>(at);
        held[4 * i] = v.x, held[4 * i + 1] = v.y, held[4 * i + 2] = v.z, held[4 * i + 3] = v.w;
      } else {
        held[i] = *at;
      }
    }
  }
  /// To a tile with rows of kPitch floats, or turned round, with columns of kPitch.
  template <int kPitch, bool kTurned>
  __device__ void store(float* to) const {
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      if constexpr (kWords == 4 && !kTurned)
        *reinterpret_cast<float4*>(to + row(i) * kPitch + column(i)) = float4{held[4 * i], held[4 * i + 1], held[4 * i + 2], held[4 * i + 3]};
      else
#pragma unroll
        for (int k = 0; k < kWords; k++) to[kTurned ? (column(i) + k) * kPitch + row(i) : row(i) * kPitch + column(i) + k] = held[i * kWords + k];
    }
  }
  template <int kPitch, bool kTurned>
  static __device__ void copy(float* to, const float* from, int n) {
#pragma unroll
    for (int i = 0; i < kEach; i++) copy_async<kTurned ? 1 : kWords>(to + (kTurned ? column(i) * kPitch + row(i) : row(i) * kPitch + column(i)), from + size_t(row(i)) * n + column(i));
  }
};

/// C = A B; a block has kM x kN of C, a thread kTm x kTn of these, kK of both at a step.
template <int kM, int kN, int kK, int kTm, int kTn, How kHow, int kWords>
__global__ void __launch_bounds__(kM / kTm * (kN / kTn)) multiply(const float* a, const float* b, float* c, int n) {
  constexpr int kThreads = kM / kTm * (kN / kTn), kPitch = kM + 4, kSets = kHow == How::between ? 1 : 2;
  using TileA = Tile<kM, kK, kThreads, kHow == How::copied ? 1 : kWords>;
  using TileB = Tile<kK, kN, kThreads, kWords>;
  __shared__ __align__(16) float as[kSets][kK * kPitch], bs[kSets][kK * kN];
  a += size_t(blockIdx.y) * kM * n, b += blockIdx.x * kN;
  const int at_m = int(threadIdx.x) / (kN / kTn) * kTm, at_n = int(threadIdx.x) % (kN / kTn) * kTn;
  float sum[kTm][kTn] = {};
  const auto products = [&](int set) {
#pragma unroll
    for (int k = 0; k < kK; k++) {
      float x[kTm], y[kTn];
#pragma unroll
      for (int i = 0; i < kTm; i++) x[i] = as[set][k * kPitch + at_m + i];
#pragma unroll
      for (int j = 0; j < kTn; j++) y[j] = bs[set][k * kN + at_n + j];
#pragma unroll
      for (int i = 0; i < kTm; i++)
#pragma unroll
        for (int j = 0; j < kTn; j++) sum[i][j] += x[i] * y[j];
    }
  };
  TileA ta;
  TileB tb;
  if constexpr (kHow == How::between) {
#pragma unroll 1
    for (int k = 0; k < n; k += kK) {
      ta.load(a + k, n), tb.load(b + size_t(k) * n, n);
      ta.template store<kPitch, true>(as[0]), tb.template store<kN, false>(bs[0]);
      __syncthreads();
      products(0);
      __syncthreads();
    }
  } else {
    const auto begin = [&](int set, int k) {
      if constexpr (kHow == How::copied) {
        TileA::template copy<kPitch, true>(as[set], a + k, n), TileB::template copy<kN, false>(bs[set], b + size_t(k) * n, n);
        asm volatile("cp.async.commit_group;" ::: "memory");
      } else {
        ta.load(a + k, n), tb.load(b + size_t(k) * n, n);
      }
    };
    const auto end = [&](int set) {
      if constexpr (kHow == How::copied)
        asm volatile("cp.async.wait_all;" ::: "memory");
      else
        ta.template store<kPitch, true>(as[set]), tb.template store<kN, false>(bs[set]);
      __syncthreads();
    };
    begin(0, 0), end(0);
    int set = 0;
#pragma unroll 1
    for (int k = kK; k < n; k += kK, set ^= 1) {
      begin(set ^ 1, k);
      products(set);
      end(set ^ 1);
    }
    products(set);
  }
#pragma unroll
  for (int i = 0; i < kTm; i++)
#pragma unroll
    for (int j = 0; j < kTn; j++) c[(size_t(blockIdx.y) * kM + at_m + i) * n + blockIdx.x * kN + at_n + j] = sum[i][j];
}

template <int kM, int kN, int kK, int kTm, int kTn, How kHow, int kWords>
truth::Launch product(long n) {
  auto a = zeros<float>(size_t(n) * n), b = zeros<float>(size_t(n) * n), c = zeros<float>(size_t(n) * n);
  return [=] { multiply<kM, kN, kK, kTm, kTn, kHow, kWords><<<dim3(unsigned(n / kN), unsigned(n / kM)), kM / kTm * (kN / kTn)>>>(a.p, b.p, c.p, int(n)); };
}

#define BLOCKED(how, m, n, k, tm, tn, words) TRUTH("blocked", "blocked_" #how "_" #m "x" #n "x" #k "_" #tm "x" #tn "_" #words, {512, 1024}, (product<m, n, k, tm, tn, How::how, words>));
#define ALL_WAYS(m, n, k, tm, tn, words) BLOCKED(between, m, n, k, tm, tn, words) BLOCKED(ahead, m, n, k, tm, tn, words) BLOCKED(copied, m, n, k, tm, tn, words)
ALL_WAYS(64, 64, 8, 8, 1, 1)
ALL_WAYS(64, 64, 8, 8, 8, 4)
ALL_WAYS(32, 32, 32, 2, 2, 1)
ALL_WAYS(64, 64, 16, 4, 4, 4)
ALL_WAYS(128, 64, 16, 8, 4, 4)
ALL_WAYS(128, 128, 8, 8, 8, 1)
ALL_WAYS(128, 128, 16, 8, 8, 4)
ALL_WAYS(128, 256, 8, 16, 8, 1)
}  // namespace
