// "Has the phase ended?" asked with a load of the mbarrier's own word, which is kept elsewhere while it is live.
// planted: asynccheck
// finding: mbarrier-read
#include "planted.h"

__global__ void ask(int* out) {
  __shared__ uint64_t bar;
  const int t = threadIdx.x;
  if (t == 0) {
    bar = 0;
    MBAR_INIT(&bar, 32);
  }
  __syncthreads();
  BUG(const uint64_t before = *(volatile uint64_t*)&bar;)  // HERE
  MBAR_ARRIVE(&bar);
  __syncwarp();
  BUG(out[t] = *(volatile uint64_t*)&bar != before;)  // HERE
  REPAIR(int ended;
         asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                      : "=r"(ended) : "r"(smem(&bar)) : "memory");
         out[t] = ended;)
}

PROGRAM(async_mbarrier_read) {
  Buffer<int> out(32);
  ask<<<1, 32>>>(out);
  return finished() && same(out.host(), std::vector<int>(32, 1));
}
