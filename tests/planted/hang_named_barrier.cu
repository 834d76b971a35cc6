// A named barrier for 128 threads that one of the four warps passes by.
// planted: hang
// finding: hang
// says: 96 of 128
#include "planted.h"

__global__ void meet(int* out) {
  __shared__ int x[128];
  int t = threadIdx.x;
  x[t] = t;
  BUG(if (t / 32 != 2)) asm volatile("barrier.sync 3, 128;" ::: "memory");  // HERE
  out[t] = x[127 - t];
  __syncthreads();  // HERE
}

PROGRAM(hang_named_barrier) {
  Buffer<int> out(128);
  meet<<<1, 128>>>(out);
  std::vector<int> want(128);
  for (int t = 0; t < 128; t++) want[t] = 127 - t;
  return finished() && same(out.host(), want);
}
