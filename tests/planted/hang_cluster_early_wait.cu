// One block of a pair waits for its neighbour's arrival on an mbarrier before it comes to the cluster barrier, at which
// the neighbour waits before it arrives.
// planted: hang
// finding: hang
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) greet(int* out) {
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    MBAR_INIT(&bar, 1);
    MBAR_FENCE_INIT();
  }
  CLUSTER_SYNC();
  BUG(if (cluster_rank() == 1) CLUSTER_SYNC();)  // HERE
  if (threadIdx.x == 0) MBAR_ARRIVE_PEER(&bar, cluster_rank() ^ 1);
  MBAR_WAIT_CLUSTER(&bar, 0);  // HERE
  out[blockIdx.x * 32 + threadIdx.x] = 1;
  BUG(if (cluster_rank() == 0)) CLUSTER_SYNC();
}

PROGRAM(hang_cluster_early_wait) {
  Buffer<int> out(64);
  greet<<<2, 32>>>(out);
  return finished() && same(out.host(), std::vector<int>(64, 1));
}
