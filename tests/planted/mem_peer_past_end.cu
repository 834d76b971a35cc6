// A neighbour's shared memory, one element too far: the address is beyond what the peer block has.
// planted: memcheck
// finding: out-of-bounds
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) swap(int* out) {
  extern __shared__ int mine[];
  mine[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
  CLUSTER_SYNC();
  int v;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(at_peer(mine + BUG(threadIdx.x + 1) REPAIR(threadIdx.x), cluster_rank() ^ 1)));  // HERE
  out[blockIdx.x * 32 + threadIdx.x] = v;
  CLUSTER_SYNC();
}

PROGRAM(mem_peer_past_end) {
  Buffer<int> out(64);
  swap<<<2, 32, 128>>>(out);
  std::vector<int> want(64);
  for (int i = 0; i < 64; i++) want[i] = (1 - i / 32) * 100 + i % 32;
  return finished() && same(out.host(), want);
}
