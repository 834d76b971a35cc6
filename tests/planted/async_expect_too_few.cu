// expect_tx names fewer bytes than the copies bring: the phase may end before the second copy has come.
// planted: asynccheck
// finding: transaction-bytes
#include "planted.h"

__global__ void load(const int* a, const int* b, int* out) {
  __shared__ alignas(128) int ta[128], tb[128];
  __shared__ uint64_t bar;
  int t = threadIdx.x;
  if (t == 0) {
    MBAR_INIT(&bar, 1);
    FENCE_PROXY_ASYNC();
    MBAR_EXPECT(&bar, 512 REPAIR(* 2));  // HERE
    BULK_LOAD(ta, a, 512, &bar);
    BULK_LOAD(tb, b, 512, &bar);  // HERE
  }
  __syncthreads();
  MBAR_WAIT(&bar, 0);  // HERE
  out[t] = ta[t] + tb[t];
}

PROGRAM(async_expect_too_few) {
  Buffer<int> a(counting(128)), b(counting(128, 2)), out(128);
  load<<<1, 128>>>(a, b, out);
  return finished() && same(out.host(), counting(128, 3));
}
