// Half, bfloat16 and fp8: every pattern survives the way through float, rounding is to nearest even on both sides.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>

#include "check.h"

__global__ void round_trip(unsigned* wrong) {
  unsigned b = blockIdx.x * blockDim.x + threadIdx.x;
  __half h = __ushort_as_half((unsigned short)b);
  if (!__hisnan(h) && __half_as_ushort(__float2half(__half2float(h))) != b) atomicAdd(wrong, 1u);
  __nv_bfloat16 f = __ushort_as_bfloat16((unsigned short)b);
  if (!__hisnan(f) && __bfloat16_as_ushort(__float2bfloat16(__bfloat162float(f))) != b) atomicAdd(wrong, 1u);
  if (b < 256 && (b & 0x7f) < 0x7f) {
    __nv_fp8_e4m3 q;
    q.__x = (unsigned char)b;
    if (__nv_fp8_e4m3((float)q).__x != b) atomicAdd(wrong, 1u);
  }
}
__global__ void arithmetic(const float* x, unsigned short* out, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  __half a(x[i]), b(x[n - 1 - i]);
  out[i * 4] = __half_as_ushort(a * b);
  out[i * 4 + 1] = __half_as_ushort(a + b);
  out[i * 4 + 2] = __half_as_ushort(__hfma(a, b, a));
  out[i * 4 + 3] = __half_as_ushort((a / b));
}

int main() {
  unsigned* wrong = managed<unsigned>(1);
  round_trip<<<256, 256>>>(wrong);
  finish();
  EXPECT(*wrong == 0, "%u patterns changed", *wrong);
  const int n = 64;
  float* x = managed<float>(n);
  unsigned short* out = managed<unsigned short>(n * 4);
  for (int i = 0; i < n; i++) x[i] = std::ldexp(1.0f + 0.013f * i, i % 9 - 4) * (i % 2 ? -1 : 1);
  arithmetic<<<1, n>>>(x, out, n);
  finish();
  for (int i = 0; i < n; i++) {
    __half a(x[i]), b(x[n - 1 - i]);
    const unsigned short want[4] = {__half_as_ushort(a * b), __half_as_ushort(a + b), __half_as_ushort(__hfma(a, b, a)),
                                    __half_as_ushort(a / b)};
    for (int k = 0; k < 4; k++) EXPECT(out[i * 4 + k] == want[k], "operation %d of %g: %04x, host %04x", k, x[i], out[i * 4 + k], want[k]);
  }
  return pass();
}
