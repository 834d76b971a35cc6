// A 16-byte load at an address that is a multiple of 4 only.
// planted: memcheck
// finding: misaligned
#include "planted.h"

__global__ void copy(const int* in, int4* out) {
  out[threadIdx.x] = *reinterpret_cast<const int4*>(in + 4 * threadIdx.x);  // HERE
}

PROGRAM(mem_misaligned) {
  Buffer<int> in(counting(136)), out(128);
  copy<<<1, 32>>>(in + BUG(1) REPAIR(4), reinterpret_cast<int4*>(out.p));
  std::vector<int> want = counting(128);
  for (int& v : want) v += 4;
  return finished() && same(out.host(), want);
}
