// A texture object over memory that has been freed.
// planted: memcheck
// finding: use-after-free
#include "planted.h"

__global__ void look(cudaTextureObject_t t, int* out) {
  out[threadIdx.x] = tex1Dfetch<int>(t, threadIdx.x);  // HERE
}

PROGRAM(mem_texture_after_free) {
  int* p;
  cudaMalloc(&p, 256);
  cudaMemcpy(p, counting(64).data(), 256, cudaMemcpyHostToDevice);
  cudaResourceDesc memory = {};
  memory.resType = cudaResourceTypeLinear;
  memory.res.linear = {p, cudaCreateChannelDesc<int>(), 256};
  cudaTextureDesc how = {};
  cudaTextureObject_t texture = 0;
  cudaCreateTextureObject(&texture, &memory, &how, nullptr);
  Buffer<int> out(64);
  BUG(cudaFree(p);)
  look<<<1, 64>>>(texture, out);
  const bool right = finished() && same(out.host(), counting(64));
  REPAIR(cudaFree(p);)
  cudaDestroyTextureObject(texture);
  return right;
}
