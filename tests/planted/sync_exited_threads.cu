// Threads beyond the end leave the kernel before a barrier that the rest of their warp reaches.
// planted: synccheck
// finding: exited-threads | divergent-barrier
// needs: --strict
#include "planted.h"

__global__ void sum(const int* in, int* out, int n) {
  __shared__ int total;
  int t = threadIdx.x;
  if (t == 0) total = 0;
  __syncthreads();
  BUG(if (t >= n) return;)
  if (t < n) atomicAdd(&total, in[t]);
  __syncthreads();  // HERE
  if (t == 0) *out = total;
}

PROGRAM(sync_exited_threads) {
  Buffer<int> in(counting(50)), out(1);
  sum<<<1, 64>>>(in, out, 50);
  return finished() && same(out.host(), {49 * 25});
}
