// A table read as a texture, of which only the first half has been copied to the device.
// planted: initcheck
// finding: uninitialised-read
#include "planted.h"

__global__ void look(cudaTextureObject_t t, int* out) {
  out[threadIdx.x] = tex1Dfetch<int>(t, threadIdx.x) == -7;  // HERE
}

PROGRAM(init_texture) {
  Buffer<int> table(64), out(64);
  cudaMemcpy(table, counting(64).data(), BUG(128) REPAIR(256), cudaMemcpyHostToDevice);
  cudaResourceDesc memory = {};
  memory.resType = cudaResourceTypeLinear;
  memory.res.linear = {table.p, cudaCreateChannelDesc<int>(), 256};
  cudaTextureDesc how = {};
  cudaTextureObject_t texture = 0;
  cudaCreateTextureObject(&texture, &memory, &how, nullptr);
  look<<<1, 64>>>(texture, out);
  const bool right = finished() && same(out.host(), std::vector<int>(64, 0));
  cudaDestroyTextureObject(texture);
  return right;
}
