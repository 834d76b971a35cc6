// A vector load at the end of an array whose length is no multiple of the vector.
// planted: memcheck
// finding: out-of-bounds
#include "planted.h"

__global__ void sum4(const int* in, int* out, int n) {
  int i = 4 * threadIdx.x;
  if (i BUG(< n) REPAIR(+ 3 < n)) {
    int4 v = *reinterpret_cast<const int4*>(in + i);  // HERE
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
  }
}

PROGRAM(mem_global_wide_read) {
  Buffer<int> in(counting(126)), out(32);
  out.zero();
  sum4<<<1, 32>>>(in, out, 126);
  std::vector<int> want(32, 0);
  for (int t = 0; t < 31; t++) want[t] = 16 * t + 6;
  return finished() && same(out.host(), want);
}
