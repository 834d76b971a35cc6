// A three-stage cp.async pipeline whose wait allows one group too many to be in flight.
// planted: asynccheck
// finding: copy-not-waited
#include "planted.h"

__global__ void stream(const int4* in, int* out, int steps) {
  __shared__ int4 ring[3][64];
  int t = threadIdx.x, sum = 0;
  for (int s = 0; s < 2; s++) {
    CP_ASYNC16(&ring[s][t], in + s * 64 + t);
    CP_ASYNC_COMMIT();
  }
  for (int s = 0; s < steps; s++) {
    CP_ASYNC_WAIT(BUG(2) REPAIR(1));
    __syncthreads();
    sum += ring[s % 3][t ^ 1].x;  // HERE
    if (s + 2 < steps) CP_ASYNC16(&ring[(s + 2) % 3][t], in + (s + 2) * 64 + t);
    CP_ASYNC_COMMIT();
  }
  out[t] = sum;
}

PROGRAM(async_cp_stages_wait) {
  const int steps = 8;
  Buffer<int> in(counting(256 * steps)), out(64);
  stream<<<1, 64>>>(reinterpret_cast<int4*>(in.p), out, steps);
  std::vector<int> want(64, 0);
  for (int t = 0; t < 64; t++)
    for (int s = 0; s < steps; s++) want[t] += (s * 64 + (t ^ 1)) * 4;
  return finished() && same(out.host(), want);
}
