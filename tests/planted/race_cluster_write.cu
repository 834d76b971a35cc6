// Two blocks of a cluster add to the same word of a third one's shared memory without atomics.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void __cluster_dims__(4, 1, 1) collect(int* out) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  CLUSTER_SYNC();
  if (threadIdx.x == 0) {
    BUG(int v;  // HERE
        asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(at_peer(&sum, 0)) : "memory");  // HERE
        asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(at_peer(&sum, 0)), "r"(v + 1) : "memory");)  // HERE
    REPAIR(asm volatile("red.shared::cluster.add.s32 [%0], 1;" ::"r"(at_peer(&sum, 0)) : "memory");)
  }
  CLUSTER_SYNC();
  if (blockIdx.x == 0 && threadIdx.x == 0) *out = sum;
}

PROGRAM(race_cluster_write) {
  Buffer<int> out(1);
  collect<<<4, 32>>>(out);
  return finished() && same(out.host(), {4});
}
