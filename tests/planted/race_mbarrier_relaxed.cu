// Data handed over by an mbarrier whose arrival is relaxed.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void pass(const int* in, int* out) {
  __shared__ int buffer[32];
  __shared__ uint64_t full;
  int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) MBAR_INIT(&full, 32);
  __syncthreads();
  if (threadIdx.x < 32) {
    buffer[lane] = in[lane];  // HERE
    BUG(asm volatile("mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [%0];" ::"r"(smem(&full)) : "memory");)
    REPAIR(MBAR_ARRIVE(&full);)
  } else {
    MBAR_WAIT(&full, 0);
    out[lane] = buffer[31 - lane];  // HERE
  }
}

PROGRAM(race_mbarrier_relaxed) {
  Buffer<int> in(counting(32)), out(32);
  pass<<<1, 64>>>(in, out);
  std::vector<int> want(32);
  for (int l = 0; l < 32; l++) want[l] = 31 - l;
  return finished() && same(out.host(), want);
}
