// A halo in shared memory that only full blocks fill.
// planted: initcheck
// finding: uninitialised-read
#include "planted.h"

__global__ void blur(const int* in, int* out) {
  __shared__ int row[66];
  int t = threadIdx.x;
  row[t + 1] = in[t];
  REPAIR(if (t == 0) row[0] = row[65] = 0;)
  __syncthreads();
  out[t] = row[t] + row[t + 1] + row[t + 2];  // HERE
}

PROGRAM(init_shared) {
  Buffer<int> in(std::vector<int>(64, 1)), out(64);
  blur<<<1, 64>>>(in, out);
  std::vector<int> want(64, 3);
  want[0] = want[63] = 2;
  return finished() && same(out.host(), want);
}
