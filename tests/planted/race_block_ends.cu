// A block reads its neighbour's shared memory and tells nobody when it has: the neighbour may have ended before.
// planted: racecheck
// finding: block-ends-while-used
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) read_peer(int* out, int work) {
  __shared__ int mine[32];
  int t = threadIdx.x, v = t;
  mine[t] = t + 1;
  CLUSTER_SYNC();
  if (blockIdx.x == 0)
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(at_peer(mine + t, 1)) : "memory");  // HERE
  else
    for (int i = 0; i < work; i++) v = v * 5 + 1;  // longer than the other block takes, as a rule
  REPAIR(CLUSTER_SYNC();)
  out[blockIdx.x * 32 + t] = v;
}

PROGRAM(race_block_ends) {
  constexpr int kWork = 20000;
  Buffer<int> out(64);
  read_peer<<<2, 32>>>(out, kWork);
  std::vector<int> want(64);
  for (int t = 0; t < 32; t++) {
    uint32_t v = uint32_t(t);
    for (int i = 0; i < kWork; i++) v = v * 5 + 1;
    want[t] = t + 1;
    want[32 + t] = int(v);
  }
  return finished() && same(out.host(), want);
}
