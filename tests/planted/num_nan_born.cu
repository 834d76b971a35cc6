// The square root of a variance that rounding has made negative.
// planted: numerics
// finding: nan-born
// needs: --numerics
#include "planted.h"

__global__ void deviation(const float* sum, const float* squares, float* out, float n) {
  int t = threadIdx.x;
  float mean = sum[t] / n, variance = squares[t] / n - mean * mean;
  out[t] = sqrtf(REPAIR(variance < 0 ? 0 :) variance);  // HERE
}

PROGRAM(num_nan_born) {
  Buffer<float> sum(std::vector<float>(32, 4)), squares(std::vector<float>(32, 3.9f)), out(32);
  deviation<<<1, 32>>>(sum, squares, out, 4);
  return finished() && same(out.host(), std::vector<float>(32, 0));
}
