// One element past the end of a global array: `<=` where `<` was meant.
// planted: memcheck
// finding: out-of-bounds
#include "planted.h"

__global__ void scale(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i BUG(<=) REPAIR(<) n) x[i] *= 2;  // HERE
}

PROGRAM(mem_global_past_end) {
  Buffer<float> x(counting<float>(1000));
  scale<<<8, 128>>>(x, 1000);
  return finished() && same(x.host(), counting<float>(1000, 2));
}
