// Relocatable device code: functions, variables and constants of another file, and statics of the same name in both.
#include "check.h"

extern __device__ int counter;
extern __constant__ float table[4];
__device__ int twice(int x);
static __device__ int mine = 3;
__device__ int own = 100;
void second(int* p);

__global__ void first(int* p) { *p = twice(*p) + counter + mine + own + (int)table[1]; }
static __global__ void same_name(int* p) { *p += 1000; }

int main() {
  int* p = managed<int>(1);
  int five = 5, read = 0;
  *p = 1;
  CUDA(cudaMemcpyToSymbol(mine, &five, sizeof five));
  first<<<1, 1>>>(p);
  finish();
  EXPECT(*p == 2 + 9 + 5 + 100 + 7, "first gave %d", *p);
  same_name<<<1, 1>>>(p);
  second(p);
  finish();
  EXPECT(*p == 123 + 1000 + 4, "second gave %d", *p);
  CUDA(cudaMemcpyFromSymbol(&read, counter, sizeof read));
  EXPECT(read == 9, "counter is %d", read);
  return pass();
}
