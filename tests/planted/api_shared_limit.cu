// More dynamic shared memory than a kernel gets without cudaFuncSetAttribute.
// planted: apicheck
// finding: launch-limit
// needs: --api-errors
// says: fill
#include "planted.h"

__global__ void fill(int* out) {
  extern __shared__ int big[];
  big[threadIdx.x * 200] = threadIdx.x;
  out[threadIdx.x] = big[threadIdx.x * 200];
}

PROGRAM(api_shared_limit) {
  Buffer<int> out(128);
  REPAIR(cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 102400);)
  fill<<<1, 128, 102400>>>(out);
  return finished() && same(out.host(), counting(128));
}
