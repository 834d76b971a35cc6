// Two arrivals at the cluster barrier with no wait between them.
// planted: synccheck
// finding: cluster-barrier
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) twice(int* out) {
  CLUSTER_ARRIVE();
  REPAIR(CLUSTER_WAIT();)
  CLUSTER_ARRIVE();  // HERE
  CLUSTER_WAIT();
  if (threadIdx.x == 0) out[blockIdx.x] = 1;
}

PROGRAM(sync_cluster_arrive_twice) {
  Buffer<int> out(2);
  twice<<<2, 32>>>(out);
  return finished() && same(out.host(), {1, 1});
}
