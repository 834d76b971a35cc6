// A 16-byte store into shared memory behind a header of 4 bytes.
// planted: memcheck
// finding: misaligned
#include "planted.h"

__global__ void stage(const int4* in, int4* out) {
  extern __shared__ __align__(16) char raw[];
  int4* tile = reinterpret_cast<int4*>(raw + BUG(4) REPAIR(16));
  tile[threadIdx.x] = in[threadIdx.x];  // HERE
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

PROGRAM(mem_misaligned_shared) {
  Buffer<int> in(counting(128)), out(128);
  stage<<<1, 32, 32 * 16 + 16>>>(reinterpret_cast<int4*>(in.p), reinterpret_cast<int4*>(out.p));
  std::vector<int> want(128);
  for (int i = 0; i < 128; i++) want[i] = (31 - i / 4) * 4 + i % 4;
  return finished() && same(out.host(), want);
}
