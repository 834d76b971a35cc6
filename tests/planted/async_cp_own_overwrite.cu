// A thread writes to the destination of its own copy while the copy is in flight.
// planted: asynccheck
// finding: stage-reused | copy-not-waited
#include "planted.h"

__global__ void load(const int4* in, int4* out, int n) {
  __shared__ int4 tile[64];
  int t = threadIdx.x;
  CP_ASYNC16(&tile[t], in + t);  // HERE
  CP_ASYNC_COMMIT();
  REPAIR(CP_ASYNC_WAIT(0);)
  if (t >= n) tile[t] = make_int4(0, 0, 0, 0);  // HERE
  CP_ASYNC_WAIT(0);
  __syncthreads();
  out[t] = tile[t];
}

PROGRAM(async_cp_own_overwrite) {
  Buffer<int> in(counting(256)), out(256);
  load<<<1, 64>>>(reinterpret_cast<int4*>(in.p), reinterpret_cast<int4*>(out.p), 60);
  std::vector<int> want = counting(256);
  for (int i = 240; i < 256; i++) want[i] = 0;
  return finished() && same(out.host(), want);
}
