// A bulk copy on an mbarrier whose initialisation was not made visible to the asynchronous proxy.
// planted: asynccheck
// finding: mbarrier-init | missing-proxy-fence
#include "planted.h"

__global__ void load(const int* in, int* out) {
  __shared__ alignas(128) int tile[128];
  __shared__ uint64_t bar;
  int t = threadIdx.x;
  if (t == 0) {
    MBAR_INIT(&bar, 1);  // HERE
    REPAIR(MBAR_FENCE_INIT(); FENCE_PROXY_ASYNC();)
    MBAR_EXPECT(&bar, 512);
    BULK_LOAD(tile, in, 512, &bar);  // HERE
  }
  __syncthreads();
  MBAR_WAIT(&bar, 0);
  out[t] = tile[t];
}

PROGRAM(async_init_no_proxy_fence) {
  Buffer<int> in(counting(128)), out(128);
  load<<<1, 128>>>(in, out);
  return finished() && same(out.host(), counting(128));
}
