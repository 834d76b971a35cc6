// A memset that counts elements where bytes are meant: three quarters stay as they were.
// planted: initcheck
// finding: uninitialised-read
#include "planted.h"

__global__ void shift(const int* in, int* out) {
  int i = threadIdx.x;
  out[i] = in[i] + i;  // HERE
}

PROGRAM(init_global_tail) {
  Buffer<int> in(256), out(256);
  cudaMemset(in, 0, 256 REPAIR(* sizeof(int)));
  shift<<<1, 256>>>(in, out);
  return finished() && same(out.host(), counting(256));
}
