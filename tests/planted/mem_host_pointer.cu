// A pointer to the host's memory in a kernel.
// planted: memcheck
// finding: host-pointer | out-of-bounds
#include "planted.h"

__global__ void sum(const int* in, int* out) { atomicAdd(out, in[threadIdx.x]); }  // HERE

PROGRAM(mem_host_pointer) {
  std::vector<int> host = counting(128);
  Buffer<int> in(host), out(1);
  out.zero();
  sum<<<1, 128>>>(BUG(host.data()) REPAIR(in), out);
  return finished() && same(out.host(), {8128});
}
