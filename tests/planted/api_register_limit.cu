// A block of 1024 threads for a kernel that keeps 128 sums in registers: a GPU has 64 for each of so many threads.
// planted: apicheck
// finding: launch-limit
// needs: --api-errors
// says: registers
#include "planted.h"

__global__ void REPAIR(__launch_bounds__(1024)) columns(const float* in, float* out, int rows) {
  float sum[128];
#pragma unroll
  for (int i = 0; i < 128; i++) sum[i] = 0;
  for (int r = 0; r < rows; r++) {
    const float x = in[r * blockDim.x + threadIdx.x];
#pragma unroll
    for (int i = 0; i < 128; i++) sum[i] += x * (sum[i] + i);
  }
  float total = 0;
#pragma unroll
  for (int i = 0; i < 128; i++) total += sum[i];
  out[threadIdx.x] = total;
}

PROGRAM(api_register_limit) {
  Buffer<float> in(std::vector<float>(2048, 0.5f)), out(1024);
  columns<<<1, 1024>>>(in, out, 2);
  float want = 0;
  for (int i = 0; i < 128; i++) want += 1.25f * i;  // 0.5 i, then 0.5 i + 0.5 (0.5 i + i)
  return finished() && same(out.host(), std::vector<float>(1024, want));
}
