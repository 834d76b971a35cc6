// Shared memory of an mbarrier used for data without mbarrier.inval.
// planted: asynccheck
// finding: mbarrier-overwritten
#include "planted.h"

__global__ void reuse(int* out) {
  __shared__ alignas(8) int pool[32];
  uint64_t* bar = reinterpret_cast<uint64_t*>(pool);
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(bar, 32);
  __syncthreads();
  MBAR_ARRIVE(bar);
  MBAR_WAIT(bar, 0);
  __syncthreads();
  REPAIR(if (t == 0) MBAR_INVAL(bar); __syncthreads();)
  pool[t] = 2 * t;  // HERE
  __syncthreads();
  out[t] = pool[31 - t];
}

PROGRAM(async_mbarrier_overwritten) {
  Buffer<int> out(32);
  reuse<<<1, 32>>>(out);
  std::vector<int> want(32);
  for (int t = 0; t < 32; t++) want[t] = 2 * (31 - t);
  return finished() && same(out.host(), want);
}
