// CUDA's names resolve on device and host: overloads of math functions, intrinsics, vector types, min and max.
#include <cmath>

#include "check.h"

__global__ void compute(double* y, int n) {
  float f = 0.25f * n;
  double d = 0.25 * n;
  int k = 0;
  y[k++] = sinf(f) - (double)std::sin(f);
  y[k++] = std::sin(d) - sin(d);
  y[k++] = rsqrtf(4.0f * n) - 0.5;
  y[k++] = sinpi(0.5 * n) - 1;
  y[k++] = normcdf(0.0) - 0.5;
  y[k++] = max(n, 3u) - 3.0;
  y[k++] = min(2.5f, 1.5 * n) - 1.5;
  y[k++] = __fmaf_rn(f, 4.0f, 1.0f) - 2.0;
  y[k++] = __double2int_rd(-0.5 * n) + 1;
  y[k++] = __float2uint_rn(2.5f * n) - 2.0;
  y[k++] = __popc(0xf0f0u * n) - 8;
  y[k++] = __clz(n) - 31;
  y[k++] = __ffsll(1ll << 40) - 41;
  y[k++] = (double)__brev(1u * n) - 2147483648.0;
  y[k++] = (double)__byte_perm(0x33221100u, 0x77665544u, 0x7531) - 0x77553311;
  y[k++] = (double)__umulhi(0x80000000u, 4u * n) - 2;
  y[k++] = __hadd(-3, 2 * n - 2) + 2;
  y[k++] = __dp4a(0x01020304, 0x01010101 * n, 5) - 15;
  y[k++] = (double)__vadd4(0x01ff7f80u, 0x01010101u * n) - 0x02008081;
  y[k++] = __viaddmax_s32(5, -9, n) - 1;
  y[k++] = (double)__funnelshift_l(0x80000000u, 1u * n, 1) - 3;
  y[k++] = fmod(7.5 * n, 2.0) - 1.5;
  y[k++] = remainder(7.5 * n, 2.0) + 0.5;
  y[k++] = llround(2.5 * n) - 3.0;
  y[k++] = rint(2.5 * n) - 2;
  y[k++] = ldexp(3.0, n) - 6;
  y[k++] = ilogb(9.0 * n) - 3;
  y[k++] = hypotf(3.0f * n, 4.0f) - 5;
  y[k++] = norm3d(1.0 * n, 2.0, 2.0) - 3;
  y[k++] = isnan(d) + isinf(f) + signbit(d);
  y[k++] = abs(-n) - 1 + fabsf(-f) - 0.25;
  y[k++] = make_float4(1, 2, 3, 4).w * n - 4;
  y[k++] = -1000;
}

int main() {
  double* y = managed<double>(64);
  compute<<<1, 1>>>(y, 1);
  finish();
  int i = 0;
  for (; y[i] != -1000; i++) EXPECT(y[i] == 0, "line %d is off by %g", i, y[i]);
  EXPECT(i == 32, "%d lines", i);
  EXPECT(sinpi(0.5) == 1 && rsqrt(4.0) == 0.5 && max(1u, 2) == 2u, "host forms");
  return pass();
}
