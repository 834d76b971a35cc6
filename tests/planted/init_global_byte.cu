// A packed record of 4 bytes of which a kernel wrote three and another reads all.
// planted: initcheck
// finding: uninitialised-read
#include "planted.h"

__global__ void pack(unsigned char* rgba) {
  unsigned char* p = rgba + 4 * threadIdx.x;
  p[0] = 1;
  p[1] = 2;
  p[2] = 3;
  REPAIR(p[3] = 0;)
}
__global__ void brightness(const unsigned* rgba, int* out) {
  unsigned v = rgba[threadIdx.x];  // HERE
  out[threadIdx.x] = int((v & 255) + (v >> 8 & 255) + (v >> 16 & 255) + (v >> 24));
}

PROGRAM(init_global_byte) {
  Buffer<unsigned char> rgba(256);
  Buffer<int> out(64);
  pack<<<1, 64>>>(rgba);
  brightness<<<1, 64>>>(reinterpret_cast<unsigned*>(rgba.p), out);
  return finished() && same(out.host(), std::vector<int>(64, 6));
}
