// A wait_group that waits for nothing: the wgmma was never committed to a group.
// planted: asynccheck
// finding: wgmma-register | wgmma-uncommitted
#include "planted.h"

__global__ void product(float* out) {
  __shared__ alignas(1024) unsigned char a[64 * 128];
  __shared__ alignas(1024) unsigned char b[8 * 128];
  for (int i = threadIdx.x; i < 64 * 32; i += 128) reinterpret_cast<unsigned*>(a)[i] = 0x3f803f80;
  for (int i = threadIdx.x; i < 8 * 32; i += 128) reinterpret_cast<unsigned*>(b)[i] = 0x3f803f80;
  FENCE_PROXY_ASYNC();
  __syncthreads();
  float d[4] = {};
  WGMMA_FENCE();
  WGMMA_SS(d, matrix_descriptor(smem(a), 16, 1024), matrix_descriptor(smem(b), 16, 1024));  // HERE
  REPAIR(WGMMA_COMMIT();)
  WGMMA_WAIT(0);
  out[threadIdx.x] = d[0];  // HERE
}

PROGRAM(async_wgmma_no_commit) {
  Buffer<float> out(128);
  product<<<1, 128>>>(out);
  return finished() && same(out.host(), std::vector<float>(128, 16));
}
