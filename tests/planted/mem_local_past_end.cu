// An index that leaves a thread's local array, and the thread's local memory with it.
// planted: memcheck
// finding: out-of-bounds
#include "planted.h"

__global__ void last_digits(const int* in, int* out) {
  int count[10] = {};
  for (int i = 0; i < 32; i++) count[in[i] BUG(* 1000) % BUG(100000) REPAIR(10)]++;  // HERE
  int best = 0;
  for (int d = 0; d < 10; d++)
    if (count[d] > count[best]) best = d;
  out[threadIdx.x] = best;
}

PROGRAM(mem_local_past_end) {
  Buffer<int> in(counting(32, 7)), out(32);
  last_digits<<<1, 32>>>(in, out);
  return finished() && same(out.host(), std::vector<int>(32, 0));
}
