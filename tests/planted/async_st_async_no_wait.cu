// A value sent into a neighbour's shared memory by st.async, read there after the cluster barrier alone.
// planted: asynccheck
// finding: copy-not-waited
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) send(int* out) {
  __shared__ int box[32];
  __shared__ uint64_t bar;
  int t = threadIdx.x;
  uint32_t peer = cluster_rank() ^ 1;
  if (t == 0) {
    MBAR_INIT(&bar, 1);
    MBAR_FENCE_INIT();
    MBAR_EXPECT(&bar, 128);
  }
  CLUSTER_SYNC();
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(at_peer(box + t, peer)), "r"(int(blockIdx.x * 100 + t)), "r"(at_peer(&bar, peer)) : "memory");  // HERE
  CLUSTER_SYNC();
  REPAIR(MBAR_WAIT_CLUSTER(&bar, 0);)
  out[blockIdx.x * 32 + t] = box[t];  // HERE
  CLUSTER_SYNC();
}

PROGRAM(async_st_async_no_wait) {
  Buffer<int> out(64);
  send<<<2, 32>>>(out);
  std::vector<int> want(64);
  for (int i = 0; i < 64; i++) want[i] = (1 - i / 32) * 100 + i % 32;
  return finished() && same(out.host(), want);
}
