// A running sum into memory that nobody has set to zero.
// planted: initcheck
// finding: uninitialised-read
#include "planted.h"

__global__ void add(const int* in, int* sum) { sum[threadIdx.x] += in[threadIdx.x]; }  // HERE

PROGRAM(init_global) {
  Buffer<int> in(counting(256)), sum(256);
  REPAIR(sum.zero();)
  add<<<1, 256>>>(in, sum);
  return finished() && same(sum.host(), counting(256));
}
