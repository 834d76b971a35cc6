// A two-stage pipeline that starts the next copy into a stage before all warps have read it.
// planted: racecheck
// finding: race | stage-reused
#include "planted.h"

__global__ void stream(const int4* in, int* out, int steps) {
  __shared__ int4 ring[2][64];
  int t = threadIdx.x, sum = 0;
  CP_ASYNC16(&ring[0][t], in + t);
  CP_ASYNC_COMMIT();
  for (int s = 0; s < steps; s++) {
    if (s + 1 < steps) CP_ASYNC16(&ring[(s + 1) % 2][t], in + (s + 1) * 64 + t);  // HERE
    CP_ASYNC_COMMIT();
    CP_ASYNC_WAIT(1);
    __syncthreads();
    sum += ring[s % 2][63 - t].x;  // HERE
    REPAIR(__syncthreads();)
  }
  out[t] = sum;
}

PROGRAM(async_cp_stage_reuse) {
  const int steps = 6;
  Buffer<int> in(counting(256 * steps)), out(64);
  stream<<<1, 64>>>(reinterpret_cast<int4*>(in.p), out, steps);
  std::vector<int> want(64, 0);
  for (int t = 0; t < 64; t++)
    for (int s = 0; s < steps; s++) want[t] += (s * 64 + 63 - t) * 4;
  return finished() && same(out.host(), want);
}
