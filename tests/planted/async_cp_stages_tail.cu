// A pipeline whose last steps commit no groups: the wait that counts groups no longer covers the last copies.
// planted: asynccheck
// finding: copy-not-waited
#include "planted.h"

__global__ void stream(const int4* in, int* out, int steps) {
  __shared__ int4 ring[4][32];
  int t = threadIdx.x, sum = 0;
  for (int s = 0; s < 3; s++) {
    CP_ASYNC16(&ring[s][t], in + s * 32 + t);
    CP_ASYNC_COMMIT();
  }
  for (int s = 0; s < steps; s++) {
    CP_ASYNC_WAIT(2);
    __syncthreads();
    sum += ring[s % 4][t ^ 3].y;  // HERE
    if (s + 3 < steps) {
      CP_ASYNC16(&ring[(s + 3) % 4][t], in + (s + 3) * 32 + t);
      BUG(CP_ASYNC_COMMIT();)
    }
    REPAIR(CP_ASYNC_COMMIT();)
  }
  out[t] = sum;
}

PROGRAM(async_cp_stages_tail) {
  const int steps = 7;
  Buffer<int> in(counting(128 * steps)), out(32);
  stream<<<1, 32>>>(reinterpret_cast<int4*>(in.p), out, steps);
  std::vector<int> want(32, 0);
  for (int t = 0; t < 32; t++)
    for (int s = 0; s < steps; s++) want[t] += (s * 32 + (t ^ 3)) * 4 + 1;
  return finished() && same(out.host(), want);
}
