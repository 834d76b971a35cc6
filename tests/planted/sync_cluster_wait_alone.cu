// A wait at the cluster barrier without an arrival before it.
// planted: synccheck
// finding: cluster-barrier
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) wait(int* out) {
  REPAIR(CLUSTER_ARRIVE();)
  CLUSTER_WAIT();  // HERE
  if (threadIdx.x == 0) out[blockIdx.x] = 1;
}

PROGRAM(sync_cluster_wait_alone) {
  Buffer<int> out(2);
  wait<<<2, 32>>>(out);
  return finished() && same(out.host(), {1, 1});
}
