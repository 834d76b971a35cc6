// A block reads its neighbour's shared memory before the cluster has met.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) swap(int* out) {
  __shared__ int mine[32];
  int t = threadIdx.x, v;
  mine[t] = blockIdx.x * 100 + t;  // HERE
  REPAIR(CLUSTER_SYNC();)
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(at_peer(mine + t, cluster_rank() ^ 1)) : "memory");  // HERE
  out[blockIdx.x * 32 + t] = v;
  CLUSTER_SYNC();
}

PROGRAM(race_cluster) {
  Buffer<int> out(64);
  swap<<<2, 32>>>(out);
  std::vector<int> want(64);
  for (int i = 0; i < 64; i++) want[i] = (1 - i / 32) * 100 + i % 32;
  return finished() && same(out.host(), want);
}
