// A softmax without subtracting the maximum: exp overflows.
// planted: numerics
// finding: infinity-born | nan-born
// needs: --numerics
#include "planted.h"

__global__ void softmax(const float* in, float* out) {
  float sum = 0, top = in[0];
  for (int i = 0; i < 8; i++) top = fmaxf(top, in[i]);
  for (int i = 0; i < 8; i++) sum += __expf(in[i] REPAIR(- top));  // HERE
  out[threadIdx.x] = __expf(in[threadIdx.x] REPAIR(- top)) / sum > 0.9f;  // HERE
}

PROGRAM(num_inf_born) {
  std::vector<float> data(8, 1), want(8, 0);
  data[3] = 200;
  want[3] = 1;
  Buffer<float> in(data), out(8);
  softmax<<<1, 8>>>(in, out);
  return finished() && same(out.host(), want);
}
