// calib/steps/polls.cu: warps that wait for an mbarrier while another one works: how often they look is told by the instructions that the profiler counts.
#include "steps.h"

namespace {
using namespace steps;

enum Wait { kTry, kTest };

/// Warp 0 makes `products` dependent ones, then arrives; all others wait.
template <Wait how>
__global__ void polls(float* out, int products) {
  __shared__ uint64_t bar[1];
  if (threadIdx.x == 0) init_ring(bar, 1);
  __syncthreads();
  float x = threadIdx.x;
  if (threadIdx.x < 32) {
#pragma unroll 1
    for (int i = 0; i < products; i += 64)
#pragma unroll
      for (int k = 0; k < 64; k++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(.99f));
    if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory");
  } else if (how == kTry) {
    wait(bar, 0);
  } else {
    asm volatile("{ .reg .pred p;\nW: mbarrier.test_wait.parity.shared::cta.b64 p, [%0], 0;\n@p bra D;\nbra W;\nD: }" ::"r"(smem(bar)) : "memory");
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
template <Wait how>
Launch of_polls(long products, int threads) {
  auto o = zeros<float>(132 * 1024);
  return [=] { polls<how><<<132, unsigned(threads)>>>(o, int(products)); };
}
#define POLLS(name, how, threads) TRUTH("polls", name, {64, 128, 256, 512, 1024, 4096, 16384}, [](long n) { return of_polls<how>(n, threads); });
POLLS("poll_try_1", kTry, 64) POLLS("poll_try_7", kTry, 256) POLLS("poll_try_31", kTry, 1024) POLLS("poll_test_1", kTest, 64) POLLS("poll_test_7", kTest, 256)

}  // namespace
