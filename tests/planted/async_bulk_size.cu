// A row of six floats sent by one bulk store: 24 bytes are no multiple of 16, and the last two floats stay behind.
// planted: asynccheck
// finding: bulk-size
#include "planted.h"

__global__ void store(float* out) {
  __shared__ alignas(16) float row[8];
  const int t = threadIdx.x, columns = 6;
  if (t < columns) row[t] = float(t + 1);
  FENCE_PROXY_ASYNC();
  __syncthreads();
  if (t == 0) {
    BULK_STORE(out, row, BUG(columns) REPAIR(columns / 4 * 4) * 4);  // HERE
    BULK_COMMIT();
    BULK_WAIT(0);
  }
  REPAIR(if (t >= columns / 4 * 4 && t < columns) out[t] = row[t];)
}

PROGRAM(async_bulk_size) {
  Buffer<float> out(6);
  out.zero();
  store<<<1, 32>>>(out);
  return finished() && same(out.host(), {1, 2, 3, 4, 5, 6});
}
