// A block arrives at its neighbour's mbarrier before the cluster has met after the initialisation.
// planted: asynccheck
// finding: mbarrier-init | race
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) greet(int* out) {
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    MBAR_INIT(&bar, 1);  // HERE
    MBAR_FENCE_INIT();
  }
  BUG(__syncthreads();)
  REPAIR(CLUSTER_ARRIVE_RELAXED(); CLUSTER_WAIT();)  // the fence publishes the initialisation
  if (threadIdx.x == 0) MBAR_ARRIVE_PEER(&bar, cluster_rank() ^ 1);  // HERE
  MBAR_WAIT_CLUSTER(&bar, 0);
  out[blockIdx.x * 32 + threadIdx.x] = 1;
  CLUSTER_SYNC();
}

PROGRAM(async_init_no_cluster_sync) {
  Buffer<int> out(64);
  greet<<<2, 32>>>(out);
  return finished() && same(out.host(), std::vector<int>(64, 1));
}
