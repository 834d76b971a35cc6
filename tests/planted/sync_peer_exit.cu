// A block leaves while its neighbour still reads its shared memory.
// planted: synccheck
// finding: exited-block
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) read_peer(int* out) {
  __shared__ int mine[32];
  int t = threadIdx.x, v = 0;
  mine[t] = t + 1;
  CLUSTER_SYNC();
  if (blockIdx.x == 1)
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(at_peer(mine + t, 0)) : "memory");  // HERE
  REPAIR(CLUSTER_SYNC();)
  out[blockIdx.x * 32 + t] = v;
}

PROGRAM(sync_peer_exit) {
  Buffer<int> out(64);
  read_peer<<<2, 32>>>(out);
  std::vector<int> want(64, 0);
  for (int t = 0; t < 32; t++) want[32 + t] = t + 1;
  return finished() && same(out.host(), want);
}
