// Managed variables: first values, host and device see each other's writes, static ones, structures, pointers to them.
#include "check.h"

struct Point { float x, y[3]; };
__managed__ int total = 5;
__device__ __managed__ Point point = {1, {2, 3, 4}};
static __managed__ int counts[40] = {1, 2, 3};
__managed__ int* link;
__device__ int plain = 9;

__global__ void use() {
  atomicAdd(&total, 1);
  counts[threadIdx.x] += 10;
  if (threadIdx.x == 0) point.y[1] *= 2, *link += plain;
}

int main() {
  EXPECT(total == 5 && point.y[2] == 4 && counts[2] == 3 && counts[39] == 0, "first values");
  total = 7;
  link = managed<int>(1);
  *link = 100;
  use<<<1, 32>>>();
  finish();
  EXPECT(total == 7 + 32, "total %d", total);
  EXPECT(counts[0] == 11 && counts[31] == 10 && counts[32] == 0, "counts");
  EXPECT(point.x == 1 && point.y[1] == 6, "point %g", point.y[1]);
  EXPECT(*link == 109, "link %d", *link);
  int copy = 0, *address = nullptr;
  CUDA(cudaMemcpyFromSymbol(&copy, total, sizeof copy));
  CUDA(cudaGetSymbolAddress((void**)&address, total));
  EXPECT(copy == 39 && address == &total, "symbol: %d", copy);
  return pass();
}
