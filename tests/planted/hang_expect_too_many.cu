// expect_tx names a full tile, but the copy of B was left out: the phase waits for bytes that nobody sends.
// planted: hang
// finding: hang
// says: 512 bytes
#include "planted.h"

__global__ void load(const int* a, const int* b, int* out) {
  __shared__ alignas(128) int ta[128], tb[128];
  __shared__ uint64_t full;
  int t = threadIdx.x;
  tb[t] = 0;
  if (t == 0) {
    MBAR_INIT(&full, 1);
    FENCE_PROXY_ASYNC();
  }
  FENCE_PROXY_ASYNC();
  __syncthreads();
  if (t == 0) {
    MBAR_EXPECT(&full, 1024);  // HERE
    BULK_LOAD(ta, a, 512, &full);
    REPAIR(BULK_LOAD(tb, b, 512, &full);)
  }
  MBAR_WAIT(&full, 0);  // HERE
  out[t] = ta[t] + tb[t];
}

PROGRAM(hang_expect_too_many) {
  Buffer<int> a(counting(128)), b(counting(128, 2)), out(128);
  load<<<1, 128>>>(a, b, out);
  return finished() && same(out.host(), counting(128, 3));
}
