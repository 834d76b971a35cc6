// calib/steps/async_rates.cu: what an asynchronous copy takes of an SM's memory pipe, by the bytes of a lane, by rows that a warp's lanes lie in, and beside
// loads from shared memory; the same by loads and stores.
//
// All blocks copy the same 16 KB again and again, which L1 holds (.ca) or does not keep (.cg). Not here: how many lines may be on their way (fills.cu of
// calib/dissect), what L2 is asked for (async_rows.cu).
#include "steps.h"

namespace async_rates {
using namespace steps;

enum How { kLoad, kCopy, kPast };

template <How how, int kBytes>
__device__ inline void bring(char* to, const char* from) {
  if constexpr (how == kLoad) {
    uint32_t v[4];
    if constexpr (kBytes == 4) {
      asm volatile("ld.global.ca.b32 %0, [%1];" : "=r"(v[0]) : "l"(from));
      *(uint32_t*)to = v[0];
    } else {
      asm volatile("ld.global.ca.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "l"(from));
      *(uint4*)to = make_uint4(v[0], v[1], v[2], v[3]);
    }
  } else if constexpr (how == kPast) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(to)), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(smem(to)), "l"(from), "n"(kBytes) : "memory");
  }
}

/// `rounds` of four copies and `kLoads` loads of words from shared memory by each thread. A warp's lanes lie in rows of `lanes`, which are 512 bytes apart.
template <How how, int kBytes, int kLoads>
__global__ void __launch_bounds__(256) copies(const char* from, float* out, int rounds, int lanes) {
  __shared__ __align__(16) char tile[4 * 256 * kBytes];
  __shared__ float words[1024];
  const int t = int(threadIdx.x), warp = t / 32, lane = t % 32;
  words[t] = words[t + 256] = words[t + 512] = words[t + 768] = float(t);
  __syncthreads();
  float s = 0;
  const char* const own = from + warp * 2048 + lane / lanes * 512 + lane % lanes * kBytes;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < 4; i++) bring<how, kBytes>(tile + (i * 256 + t) * kBytes, own + (lanes * kBytes < 512 ? i * lanes * kBytes % 512 : 0));
    if (how != kLoad) asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
#pragma unroll
    for (int i = 0; i < kLoads; i++) {
      float y;
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(y) : "r"(smem(&words[(t + i * 32) % 1024])));
      s += y;
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  out[long(blockIdx.x) * 256 + t] = s + float(tile[t]);
}

template <How how, int kBytes, int kLoads>
truth::Launch launch(long held, int lanes) {
  auto a = zeros<char>(64 << 10);
  auto o = zeros<float>(size_t(132 * held) * 256);
  const int blocks = int(132 * held);
  return [=] { copies<how, kBytes, kLoads><<<blocks, 256>>>(a.p, o.p, 2000, lanes); };
}

#define HELD (std::vector<long>{1, 4})
#define RATE(name, how, bytes, lanes) \
  TRUTH("async", "async_rate_" name, HELD, [](long n) { return launch<how, bytes, 0>(n, lanes); }); \
  TRUTH("async", "async_rate_" name "_beside", HELD, [](long n) { return launch<how, bytes, 16>(n, lanes); });
RATE("load4", kLoad, 4, 32)
RATE("load4_rows2", kLoad, 4, 16)
RATE("load4_rows4", kLoad, 4, 8)
RATE("load16", kLoad, 16, 32)
RATE("copy4", kCopy, 4, 32)
RATE("copy4_rows2", kCopy, 4, 16)
RATE("copy4_rows4", kCopy, 4, 8)
RATE("copy4_rows32", kCopy, 4, 1)
RATE("copy8", kCopy, 8, 32)
RATE("copy8_rows2", kCopy, 8, 16)
RATE("copy16", kCopy, 16, 32)
RATE("copy16_rows4", kCopy, 16, 8)
RATE("past16", kPast, 16, 32)
RATE("past16_rows4", kPast, 16, 8)

}  // namespace async_rates
