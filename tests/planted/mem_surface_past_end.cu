// A surface write whose column counts elements, where surfaces count bytes, and runs past the end of the row.
// planted: memcheck
// finding: out-of-bounds | fault
#include "planted.h"

__global__ void fill(cudaSurfaceObject_t s) {
  surf2Dwrite(int(threadIdx.x + 100 * threadIdx.y), s, int(threadIdx.x * BUG(8) REPAIR(4)), int(threadIdx.y));  // HERE
}

PROGRAM(mem_surface_past_end) {
  cudaArray_t array;
  const cudaChannelFormatDesc ints = cudaCreateChannelDesc<int>();
  cudaMallocArray(&array, &ints, 16, 4, cudaArraySurfaceLoadStore);
  cudaResourceDesc memory = {};
  memory.resType = cudaResourceTypeArray;
  memory.res.array.array = array;
  cudaSurfaceObject_t surface = 0;
  cudaCreateSurfaceObject(&surface, &memory);
  fill<<<1, dim3(16, 4)>>>(surface);
  std::vector<int> got(64), want(64);
  for (int i = 0; i < 64; i++) want[i] = i % 16 + 100 * (i / 16);
  const bool right = finished() && cudaMemcpy2DFromArray(got.data(), 64, array, 0, 0, 64, 4, cudaMemcpyDeviceToHost) == cudaSuccess && same(got, want);
  cudaDestroySurfaceObject(surface);
  cudaFreeArray(array);
  return right;
}
