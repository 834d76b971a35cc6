// Warp and block collectives: shuffles of every type, votes, matches, cooperative groups, barriers with a count.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void collect(int* out, double* wide) {
  int t = threadIdx.x, lane = t & 31;
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  out[0 * 64 + t] = __shfl_xor_sync(~0u, t, 5);
  out[1 * 64 + t] = (int)__ballot_sync(~0u, lane % 3 == 0);
  out[2 * 64 + t] = (int)__match_any_sync(~0u, lane / 4);
  out[3 * 64 + t] = __syncthreads_count(t % 5 == 0);
  out[4 * 64 + t] = cg::reduce(tile, t, cg::plus<int>());
  out[5 * 64 + t] = cg::inclusive_scan(tile, 1);
  out[6 * 64 + t] = (int)tile.ballot(tile.thread_rank() & 1);
  out[7 * 64 + t] = __reduce_max_sync(~0u, lane * 7 % 31);
  if (lane % 2) {
    auto odd = cg::coalesced_threads();
    out[8 * 64 + t] = (int)odd.thread_rank() * 100 + (int)odd.size();
  }
  wide[t] = __shfl_down_sync(~0u, t + 0.5, 1);
}

int main() {
  int* out = managed<int>(9 * 64);
  double* wide = managed<double>(64);
  collect<<<1, 64>>>(out, wide);
  finish();
  unsigned thirds = 0;
  for (int i = 0; i < 32; i += 3) thirds |= 1u << i;
  for (int t = 0; t < 64; t++) {
    int lane = t & 31, first = t & ~7, top = 0;
    for (int l = 0; l < 32; l++) top = l * 7 % 31 > top ? l * 7 % 31 : top;
    EXPECT(out[0 * 64 + t] == (t ^ 5), "shuffle %d", t);
    EXPECT((unsigned)out[1 * 64 + t] == thirds, "ballot %d", t);
    EXPECT((unsigned)out[2 * 64 + t] == 0xfu << (lane & ~3), "match %d", t);
    EXPECT(out[3 * 64 + t] == 13, "count %d", t);
    EXPECT(out[4 * 64 + t] == first * 8 + 28, "reduce %d", t);
    EXPECT(out[5 * 64 + t] == t % 8 + 1, "scan %d", t);
    EXPECT(out[6 * 64 + t] == 0xaa, "tile ballot %d", t);
    EXPECT(out[7 * 64 + t] == top, "redux %d: %d", t, out[7 * 64 + t]);
    if (t % 2) EXPECT(out[8 * 64 + t] == lane / 2 * 100 + 16, "coalesced %d: %d", t, out[8 * 64 + t]);
    EXPECT(wide[t] == (lane == 31 ? t : t + 1) + 0.5, "double %d", t);
  }
  return pass();
}
