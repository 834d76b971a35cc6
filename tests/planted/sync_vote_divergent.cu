// A ballot over the whole warp inside a branch of some lanes; the others go to a ballot of their own.
// planted: synccheck
// finding: warp-mask
#include "planted.h"

__global__ void count(const int* in, int* out) {
  int t = threadIdx.x, v = in[t];
  unsigned big;
  BUG(if (v > 10) asm volatile("{ .reg .pred p; setp.gt.s32 p, %1, 20; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(big) : "r"(v));  // HERE
      else asm volatile("{ .reg .pred p; setp.gt.s32 p, %1, 5; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(big) : "r"(v));)  // HERE
  REPAIR(big = __ballot_sync(0xffffffff, v > 20);)
  out[t] = __popc(big);
}

PROGRAM(sync_vote_divergent) {
  Buffer<int> in(counting(32)), out(32);
  count<<<1, 32>>>(in, out);
  return finished() && same(out.host(), std::vector<int>(32, 11));
}
