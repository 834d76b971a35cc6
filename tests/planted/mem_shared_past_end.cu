// A dynamic shared array that is one row too small for the kernel's padding.
// planted: memcheck
// finding: out-of-bounds
#include "planted.h"

__global__ void transpose(const int* in, int* out) {
  extern __shared__ int tile[];
  tile[threadIdx.y * 33 + threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];  // HERE
  __syncthreads();
  out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x * 33 + threadIdx.y];
}

PROGRAM(mem_shared_past_end) {
  Buffer<int> in(counting(1024)), out(1024);
  transpose<<<1, dim3(32, 32), 32 * BUG(32) REPAIR(33) * 4>>>(in, out);
  std::vector<int> want(1024);
  for (int i = 0; i < 1024; i++) want[i] = i % 32 * 32 + i / 32;
  return finished() && same(out.host(), want);
}
