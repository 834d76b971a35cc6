// A sum that leaves the range of half precision when it is stored.
// planted: numerics
// finding: overflow
// needs: --numerics
#include "planted.h"
#include <cuda_fp16.h>

__global__ void total(const float* in, __half* out, float scale) {
  float sum = 0;
  for (int i = 0; i < 64; i++) sum += in[i];
  out[threadIdx.x] = __float2half(sum REPAIR(* scale));  // HERE
}

PROGRAM(num_half_overflow) {
  Buffer<float> in(std::vector<float>(64, 2048));
  Buffer<__half> out(32);
  total<<<1, 32>>>(in, out, 1 / 64.f);
  if (!finished()) return false;
  for (__half h : out.host())
    if (__half2float(h) != 2048) return false;
  return true;
}
