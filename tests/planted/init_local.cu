// A local array of which one branch fills one element less.
// planted: initcheck
// finding: uninitialised-read
#include "planted.h"

__global__ void reverse(const int* in, int* out, int n) {
  int hold[16];
  for (int i = 0; i < n BUG(- 1); i++) hold[in[i]] = i;
  int sum = 0;
  for (int i = 0; i < n; i++) sum = sum * 3 + hold[in[n - 1 - i]];  // HERE
  out[threadIdx.x] = sum;
}

PROGRAM(init_local) {
  Buffer<int> in(counting(16)), out(32);
  reverse<<<1, 32>>>(in, out, 16);
  int want = 0;
  for (int i = 0; i < 16; i++) want = want * 3 + 15 - i;
  return finished() && same(out.host(), std::vector<int>(32, want));
}
