// An optional array that is null, used without a look.
// planted: memcheck
// finding: null-pointer | out-of-bounds
#include "planted.h"

__global__ void add_bias(float* x, const float* bias) {
  int t = threadIdx.x;
  x[t] += REPAIR(!bias ? 0 :) bias[t];  // HERE
}

PROGRAM(mem_null) {
  Buffer<float> x(counting<float>(64));
  add_bias<<<1, 64>>>(x, nullptr);
  return finished() && same(x.host(), counting<float>(64));
}
