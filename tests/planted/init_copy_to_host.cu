// A result array that a grid one block too small fills only in part, copied to the host as a whole.
// planted: initcheck
// finding: uninitialised-copy
// needs: --copies
#include "planted.h"

__global__ void square(int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = i * i;
}

PROGRAM(init_copy_to_host) {
  Buffer<int> out(1024);
  square<<<BUG(7) REPAIR(8), 128>>>(out);
  if (!finished()) return false;
  std::vector<int> want(1024), got = out.host();
  for (int i = 0; i < 1024; i++) want[i] = i * i;
  return same(got, want);
}
