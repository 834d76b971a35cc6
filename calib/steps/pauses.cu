// calib/steps/pauses.cu: what a warp does to wait: nanosleep, and barriers of memory for its block, by how many warps of an SM do it.
//
// Not here: barriers of memory for the GPU (calib/fences.cu), waits for mbarriers (polls.cu).
#include "steps.h"

namespace pauses {
using namespace steps;

__global__ void sleep(const float* a, float* out, int rounds, unsigned ns) {
  float v = a[threadIdx.x];
  for (int i = 0; i < rounds; i++) {
    v = v * 1.01f + 0.1f;
    __nanosleep(ns);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
enum Before { kNothing, kStore, kShared, kLoad };
template <Before before>
__global__ void fence(const float* a, float* out, int rounds) {
  __shared__ float s[1024];
  float v = a[threadIdx.x];
  float* const own = out + blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < rounds; i++) {
    v = v * 1.01f + 0.1f;
    if (before == kStore) *own = v;
    if (before == kShared) ((volatile float*)s)[threadIdx.x] = v;
    if (before == kLoad) v += ((const volatile float*)a)[threadIdx.x];
    __threadfence_block();
  }
  *own = v;
}
truth::Launch sleeping(int blocks, int threads, int rounds, unsigned ns) {
  auto a = zeros<float>(1024), o = zeros<float>(size_t(blocks) * size_t(threads));
  return [=] { sleep<<<unsigned(blocks), unsigned(threads)>>>(a.p, o.p, rounds, ns); };
}
template <Before before>
truth::Launch fencing(int blocks, int threads) {
  auto a = zeros<float>(1024), o = zeros<float>(size_t(blocks) * size_t(threads));
  return [=] { fence<before><<<unsigned(blocks), unsigned(threads)>>>(a.p, o.p, 200); };
}

#define SLEEPS (std::vector<long>{0, 20, 50, 100, 200, 500, 1000, 3000, 10000, 100000})
#define WARPS (std::vector<long>{1, 4, 8, 16, 32})
TRUTH("pauses", "sleep", SLEEPS, [](long n) { return sleeping(132, 32, 100, unsigned(n)); });
TRUTH("pauses", "sleep_many", SLEEPS, [](long n) { return sleeping(264, 1024, 50, unsigned(n)); });
TRUTH("pauses", "fence_block", WARPS, [](long n) { return fencing<kNothing>(132, int(n) * 32); });
TRUTH("pauses", "fence_block_two", WARPS, [](long n) { return fencing<kNothing>(264, int(n) * 32); });
TRUTH("pauses", "fence_block_store", WARPS, [](long n) { return fencing<kStore>(132, int(n) * 32); });
TRUTH("pauses", "fence_block_shared", WARPS, [](long n) { return fencing<kShared>(132, int(n) * 32); });
TRUTH("pauses", "fence_block_load", WARPS, [](long n) { return fencing<kLoad>(132, int(n) * 32); });

}  // namespace pauses
