// Values beyond the 448 of e4m3, stored without their scale.
// planted: numerics
// finding: saturation | overflow
// needs: --numerics
#include "planted.h"

__global__ void quantise(const float* in, unsigned short* out, float scale) {
  float a = in[2 * threadIdx.x] REPAIR(* scale), b = in[2 * threadIdx.x + 1] REPAIR(* scale);
  asm volatile("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(out[threadIdx.x]) : "f"(b), "f"(a));  // HERE
}

PROGRAM(num_fp8_saturation) {
  Buffer<float> in(std::vector<float>(64, 1024));
  Buffer<unsigned short> out(32);
  quantise<<<1, 32>>>(in, out, 0.125f);
  return finished() && same(out.host(), std::vector<unsigned short>(32, 0x7070));
}
