// A tile copied with cp.async and read after a barrier, but without the wait for the copies.
// planted: asynccheck
// finding: copy-not-waited
#include "planted.h"

__global__ void load(const int4* in, int4* out) {
  __shared__ int4 tile[64];
  int t = threadIdx.x;
  CP_ASYNC16(&tile[t], in + t);  // HERE
  CP_ASYNC_COMMIT();
  REPAIR(CP_ASYNC_WAIT(0);)
  __syncthreads();
  out[t] = tile[63 - t];  // HERE
}

PROGRAM(async_cp_no_wait) {
  Buffer<int> in(counting(256)), out(256);
  load<<<1, 64>>>(reinterpret_cast<int4*>(in.p), reinterpret_cast<int4*>(out.p));
  std::vector<int> want(256);
  for (int i = 0; i < 256; i++) want[i] = (63 - i / 4) * 4 + i % 4;
  return finished() && same(out.host(), want);
}
