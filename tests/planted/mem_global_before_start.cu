// The left neighbour of element 0: a stencil without its boundary.
// planted: memcheck
// finding: out-of-bounds
#include "planted.h"

__global__ void difference(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] - (REPAIR(i == 0 ? 0 :) in[i - 1]);  // HERE
}

PROGRAM(mem_global_before_start) {
  Buffer<int> in(counting(512, 3)), out(512);
  difference<<<4, 128>>>(in, out, 512);
  std::vector<int> want(512, 3);
  want[0] = 0;
  return finished() && same(out.host(), want);
}
