// Accumulators stored before wgmma.wait_group.
// planted: asynccheck
// finding: wgmma-register
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
  WGMMA_COMMIT();
  REPAIR(WGMMA_WAIT(0);)
  _Pragma("unroll") for (int i = 0; i < 4; i++) asm volatile("st.global.f32 [%0], %1;" ::"l"(out + threadIdx.x * 4 + i), "f"(d[i]) : "memory");  // HERE
  WGMMA_WAIT(0);
}

PROGRAM(async_wgmma_result_early) {
  Buffer<float> out(512);
  product<<<1, 128>>>(out);
  return finished() && same(out.host(), std::vector<float>(512, 16));
}
