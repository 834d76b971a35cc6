// One element past the end of a block that the kernel got from malloc.
// planted: memcheck
// finding: out-of-bounds
#include "planted.h"

__global__ void triangle(int* out) {
  int t = threadIdx.x;
  int* row = static_cast<int*>(malloc((t + 1) * sizeof(int)));
  for (int i = 0; i BUG(<= t + 1) REPAIR(<= t); i++) row[i] = i;  // HERE
  int sum = 0;
  for (int i = 0; i <= t; i++) sum += row[i];
  out[t] = sum;
  free(row);
}

PROGRAM(mem_heap_past_end) {
  Buffer<int> out(64);
  triangle<<<1, 64>>>(out);
  std::vector<int> want(64);
  for (int t = 0; t < 64; t++) want[t] = t * (t + 1) / 2;
  return finished() && same(out.host(), want);
}
