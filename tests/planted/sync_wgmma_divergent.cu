// A warpgroup instruction in a branch that one of the four warps does not take.
// planted: synccheck
// finding: divergent-warp | hang
#include "planted.h"

__global__ void product(float* out) {
  __shared__ alignas(1024) unsigned char a[64 * 128];
  __shared__ alignas(1024) unsigned char b[8 * 128];
  for (int i = threadIdx.x; i < 64 * 32; i += 128) reinterpret_cast<unsigned*>(a)[i] = 0x3f803f80;  // ones
  for (int i = threadIdx.x; i < 8 * 32; i += 128) reinterpret_cast<unsigned*>(b)[i] = 0x3f803f80;
  FENCE_PROXY_ASYNC();
  __syncthreads();
  float d[4] = {};
  BUG(if (threadIdx.x < 96)) {
    WGMMA_FENCE();
    WGMMA_SS(d, matrix_descriptor(smem(a), 16, 1024), matrix_descriptor(smem(b), 16, 1024));  // HERE
    WGMMA_COMMIT();  // HERE
    WGMMA_WAIT(0);   // HERE
  }
  out[threadIdx.x] = d[0];
}

PROGRAM(sync_wgmma_divergent) {
  Buffer<float> out(128);
  product<<<1, 128>>>(out);
  return finished() && same(out.host(), std::vector<float>(128, 16));
}
