// Accumulators are set to zero and used by wgmma without wgmma.fence between the two.
// planted: asynccheck
// finding: missing-wgmma-fence
#include "planted.h"

__global__ void product(float* out) {
  __shared__ alignas(1024) unsigned char a[64 * 128];
  __shared__ alignas(1024) unsigned char b[8 * 128];
  for (int i = threadIdx.x; i < 64 * 32; i += 128) reinterpret_cast<unsigned*>(a)[i] = 0x3f803f80;
  for (int i = threadIdx.x; i < 8 * 32; i += 128) reinterpret_cast<unsigned*>(b)[i] = 0x3f803f80;
  FENCE_PROXY_ASYNC();
  __syncthreads();
  float d[4];
  _Pragma("unroll") for (int i = 0; i < 4; i++) d[i] = float(threadIdx.x);
  REPAIR(WGMMA_FENCE();)
  WGMMA_SS(d, matrix_descriptor(smem(a), 16, 1024), matrix_descriptor(smem(b), 16, 1024));  // HERE
  WGMMA_COMMIT();
  WGMMA_WAIT(0);
  out[threadIdx.x] = d[0];
}

PROGRAM(async_wgmma_missing_wgmma_fence) {
  Buffer<float> out(128);
  product<<<1, 128>>>(out);
  std::vector<float> want(128);
  for (int t = 0; t < 128; t++) want[t] = t + 16;
  return finished() && same(out.host(), want);
}
